// The model that a configuration describes.
#pragma once

#include <string>
#include <string_view>

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
// Both, and the teacher that it learns from: what training and plans are of.
ModelConfig training_model(const Config& config, FileSystem& files);
// The model of a folder that another key than model.folder names, and messages with it. ConfigError
// for a folder without a whole model.
ModelConfig model_at(std::string_view key, const std::string& folder, FileSystem& files);

}  // namespace ds
