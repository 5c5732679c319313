// The text of tokens that come one by one: what a token becomes may depend on those before it (a
// space before a word, bytes of one character), so that texts of single tokens do not add up.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace ds {

class TokenStream {
 public:
  // `before`: the tokens that the text goes on from, which are not shown again.
  explicit TokenStream(const Tokenizer& tokenizer, std::span<const int32_t> before = {});

  // What the text is longer by with this token, in whole characters: a part of one is kept until
  // the others come.
  std::string add(int32_t id);
  // No more will come: the part of a character that is left.
  std::string finish();

 private:
  void shorten();

  const Tokenizer& tokenizer_;
  std::vector<int32_t> window_;  // the last tokens, from one that begins a character on
  std::string shown_;            // what has been told of their text
  // After so many tokens of the window a character ended: the last such place, and the one before.
  size_t settled_ = 0, settled_before_ = 0;
};

}  // namespace ds
