#include "data/tokenizer/split/cut_places.h"

#include <algorithm>

#include "data/text/text_kind.h"
#include "data/tokenizer/text/unicode.h"

namespace ds {
namespace {

// SentencePiece's sign stands for a space.
constexpr char32_t kSign = 0x2581;

bool is_space(char32_t c) { return c == kSign || unicode::is_white_space(c); }

// Whether the character that ends at `end` is no white space and takes nothing that follows to
// itself.
bool stands_alone(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  return !is_space(first_character(text.substr(begin)).code) &&
         unicode::grapheme_bytes(text.substr(begin, end + 1 - begin)) == end - begin;
}

}  // namespace

size_t CutPlaces::next(std::string_view text, size_t from) const {
  if (kind_ == Kind::kNone) return std::string_view::npos;
  const bool lines = kind_ == Kind::kBehindLines;
  for (size_t at = std::max<size_t>(from, 1); at < text.size(); ++at) {
    at = lines ? text.find('\n', at - 1) : text.find(' ', at);
    if (at == std::string_view::npos) break;
    if (lines) ++at;
    if (at == text.size()) break;
    if (lines ? !is_space(first_character(text.substr(at)).code) : stands_alone(text, at))
      return at;
  }
  return std::string_view::npos;
}

bool is_never_cut(std::string_view text) {
  size_t spaces = 0, characters = 0;
  unicode::for_each_character(text, [&](char32_t c, size_t, size_t) {
    ++characters;
    if (is_space(c)) ++spaces;
  });
  return spaces == 0 || spaces == characters;
}

}  // namespace ds
