// Writing a trained model as a Hugging Face folder: config.json, model.safetensors, tokenizer.json.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "core/file.h"
#include "model/model_config.h"
#include "model/param.h"

namespace ds {

// Streams the fp32 master weights of a tag, one tensor at a time, into `folder` (made if missing).
// `tokenizer`: "byte", a tokenizer.json or a folder with one; data without text has none to copy.
void write_model_folder(FileSystem& files, const std::string& folder, const ModelConfig& model,
                        const std::vector<ParamSpec>& specs, CheckpointReader& reader,
                        const std::string& tokenizer);

// A tokenizer.json whose ids are the bytes themselves: byte-level BPE without merges.
std::string byte_tokenizer_json();

}  // namespace ds
