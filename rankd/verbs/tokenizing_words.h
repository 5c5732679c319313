// What people read of texts that are tokenised, by whatever tokenises them.
#pragma once

#include <optional>
#include <string>

#include "data/cache/token_cache.h"

namespace ds {

// When lines about a text that is tokenised come, in seconds: the first, and the others.
struct TokenizingPace {
  double first_s = 2, next_s = 10;
};

// Lines about a text that is tokenised (pure): at the end, and before it by that pace. That another
// process does it is said once.
class TokenizingWords {
 public:
  explicit TokenizingWords(TokenizingPace pace = {}) : pace_(pace) {}
  // `now_s`: by a clock that goes on; nothing: there is nothing new to say.
  std::optional<std::string> after(const TokenizingProgress& progress, double now_s);

 private:
  TokenizingPace pace_;
  std::string path_;
  TokenizingProgress::Work work_ = TokenizingProgress::Work::kTokenise;
  double begun_s_ = 0, said_s_ = 0;
  int64_t first_byte_ = 0;
};

}  // namespace ds
