// The model that a configuration describes.
#pragma once

#include "config/config.h"
#include "core/files/file.h"

namespace ds {

// A family's dimensions, or those of the Hugging Face folder. Throws as read_hf_model throws, and
// ConfigError for a folder of adapters alone.
ModelConfig base_model(const ModelSection& model, FileSystem& files);
// The adapters beside it. A head that scores classes trains as a whole then, as peft has it. Throws
// as read_adapter_file throws.
void add_adapters(const LoraConfig& lora, FileSystem& files, ModelConfig& model);
// Both.
ModelConfig model_config(const Config& config, FileSystem& files);

}  // namespace ds
