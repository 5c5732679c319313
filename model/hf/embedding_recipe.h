// How a folder makes one vector of a text, as sentence-transformers writes it there: modules.json
// lists the steps behind the model, 1_Pooling/config.json says what becomes of the vectors of a
// text's tokens, and sentence_bert_config.json how long a text may be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file.h"

namespace ds {

// What is taken of the vectors of a text's tokens, those around the text included.
enum class Pooling : uint8_t { kMean, kFirst, kLast };

struct EmbeddingRecipe {
  Pooling pooling = Pooling::kMean;
  bool normalizes = false;                 // to length 1
  std::optional<int64_t> longest = {};     // tokens, those around the text included
  std::vector<std::string> not_applied{};  // what the folder says besides, for people
};

// A plain mean without those files. `chosen` goes before what they say of pooling. DataError for
// what is no such file, Unsupported for a step or a pooling that is not built, by its name.
EmbeddingRecipe read_embedding_recipe(FileSystem& files, const std::string& folder,
                                      std::optional<Pooling> chosen = std::nullopt);

}  // namespace ds
