// Hugging Face config.json in and out, by the fields() of the model's family. Keys that do not
// change what the model computes are ignored, as transformers does; keys that would, and that we do
// not build, are refused by name. The other names that transformers takes for a key
// ("num_attention_heads" for GPT-2's "n_head") are taken too. Values are taken as they are written:
// "5" is no number here, as it is none for transformers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/families/list.h"
#include "core/files/file.h"
#include "core/values/dtype.h"

namespace ds {

// A model of one of our families (list.h), by `architectures` or else `model_type`. `path` is named
// in messages. DataError for what is no such JSON, for impossible dimensions, and for two names of
// one key that contradict each other; Unsupported for features we do not build.
// wanted: the classes that the model is to score, if it is not to be taken as it is. Its head
// begins anew then, unless it is one of those very classes; DataError for one of others.
ModelConfig parse_hf_config(std::string_view json, const std::string& path,
                            const WantedClasses& wanted = {});
ModelConfig read_hf_config(FileSystem& file_system, const std::string& folder,
                           const WantedClasses& wanted = {});  // folder/config.json

// Keys of a config.json that say something and that nobody here knows: neither those that are read
// nor those that change nothing that a model computes. Throws as parse_hf_config does.
std::vector<std::string> unread_hf_keys(std::string_view json, const std::string& path);

// The class that a folder's config.json names, if it is one without the head of its family, as the
// models of embeddings are ("BertModel"); else, and without the file, an empty name.
std::string headless_class(FileSystem& file_system, const std::string& folder);

// What a config.json says of the vocabulary; no part of what the model computes.
struct HfTokenIds {
  std::optional<int64_t> bos{}, eos{}, pad{};
};

// The text of a config.json that transformers and parse_hf_config read back to the same model. Ids
// that are not given are null: without the key transformers has ids of its own (50256 for GPT-2),
// which mean nothing here.
std::string format_hf_config(const ModelConfig& config, DType dtype, const HfTokenIds& ids = {});

// The config.json `source` of `config`, with all that it says besides, for weights of `dtype`,
// which have the head of the family and no other.
// DataError where it is of another model.
std::string keep_hf_config(std::string_view source, const std::string& path,
                           const ModelConfig& config, DType dtype);

}  // namespace ds
