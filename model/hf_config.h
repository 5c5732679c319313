// Hugging Face config.json in and out. Keys that do not change what the model computes are ignored, as
// transformers does; keys that would, and that we do not build, are refused by name. A silent key means
// Hugging Face's default, not ours (dropout 0.1 in GPT-2).
#pragma once

#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/file.h"
#include "model/model_config.h"

namespace ds {

// GPT2LMHeadModel or LlamaForCausalLM, by `architectures` or else `model_type`. `path` is named in
// messages. DataError for what is no such JSON, Unsupported for features we do not build, ConfigError
// for impossible dimensions.
ModelConfig parse_hf_config(std::string_view json, const std::string& path);
ModelConfig read_hf_config(FileSystem& file_system, const std::string& folder);  // folder/config.json

// The text of a config.json that transformers and parse_hf_config read back to the same model.
std::string format_hf_config(const ModelConfig& config, DType dtype);

}  // namespace ds
