// What a tokenizer puts around a text: <|begin_of_text|> and the like, by the post_processor of a
// tokenizer.json and the add_bos_token and add_eos_token of the tokenizer_config.json beside it
// (which win, as in transformers).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/files/file.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {

struct TokenizerFrame {
  std::vector<int32_t> before, after;
};
// Empty for "byte". DataError for a template that cannot be read, Unsupported for a post-processor
// that is not known.
TokenizerFrame read_frame(FileSystem& files, const std::string& name_or_path,
                          const Tokenizer& tokenizer);

// What it puts around two texts of one sample, and whether the second one, with what follows it, is
// a segment of its own.
struct PairFrame {
  std::vector<int32_t> before, between, after;
  bool has_segments = false;
};
// The frame of a text and nothing in between if no post_processor says otherwise. Unsupported also
// for segments that are cut elsewhere than before the second text.
PairFrame read_pair_frame(FileSystem& files, const std::string& name_or_path,
                          const Tokenizer& tokenizer);

}  // namespace ds
