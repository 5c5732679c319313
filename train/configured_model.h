// The model that a configuration describes.
#pragma once

#include "config/config.h"
#include "core/files/file.h"

namespace ds {

// Its family's dimensions, or those of the Hugging Face folder, and its adapters. Throws as
// read_hf_model and read_adapter_file throw, and ConfigError for a folder of adapters alone.
ModelConfig model_config(const Config& config, FileSystem& files);

}  // namespace ds
