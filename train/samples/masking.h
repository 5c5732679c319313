// How a run masks its samples: what the configuration says of it, of a tokenizer's tokens.
#pragma once

#include <optional>

#include "config/config.h"
#include "core/files/file.h"
#include "data/masked_tokens.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {

// What is masked: nothing, in samples of a model that predicts next tokens. ConfigError where the
// configuration says something of it all the same, where no token is known that masks, and where
// words are asked for and nothing tells them apart. `tokenizer`: null where all data are token ids.
// end: the token that ends documents, if it is known.
std::optional<MaskingRules> masking_rules(const DataSection& data, const ModelConfig& model,
                                          const Tokenizer* tokenizer, std::optional<int32_t> end,
                                          FileSystem& files);
// Why a run cannot go with losses of which as many count as are masked; empty: it can.
std::string uneven_conflict(const Config& config, const ModelConfig& model);

}  // namespace ds
