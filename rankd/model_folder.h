// Writing a trained model as a Hugging Face folder: config.json, model.safetensors, tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "core/file.h"
#include "model/model_config.h"
#include "model/param.h"

namespace ds {

struct ModelExport {
  std::string folder;                  // made if missing
  ModelConfig model;
  std::vector<ParamSpec> specs;
  std::optional<std::string> source;   // the folder training started from, whose names are kept
  std::string tokenizer;               // "byte", a tokenizer.json, or a folder with one
};
// Streams the fp32 master weights of a tag, one tensor at a time, into the folder.
void write_model_folder(FileSystem& files, const ModelExport& what, CheckpointReader& reader);

// A tokenizer.json whose ids are the bytes themselves: byte-level BPE without merges.
std::string byte_tokenizer_json();

}  // namespace ds
