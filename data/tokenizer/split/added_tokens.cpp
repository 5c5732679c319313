#include "data/tokenizer/split/added_tokens.h"

#include <algorithm>

#include "core/status/error.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

unsigned char byte_at(const AddedToken& token, size_t at) {
  return static_cast<unsigned char>(token.content[at]);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  const auto by_content = [](const AddedToken& a, const AddedToken& b) {
    return a.content < b.content;
  };
  std::stable_sort(tokens_.begin(), tokens_.end(), by_content);
  const auto same = [](const AddedToken& a, const AddedToken& b) { return a.content == b.content; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());
  for (const AddedToken& token : tokens_) {
    DS_CHECK(!token.content.empty() && token.content.size() <= kLongest,
             "an added token of {} bytes, expected 1 to {}", token.content.size(), kLongest);
    ++first_byte_[size_t{byte_at(token, 0)} + 1];
    longest_ = std::max(longest_, token.content.size());
    has_words_ = has_words_ || token.where == AddedToken::Where::kWholeWord;
  }
  for (size_t byte = 0; byte < 256; ++byte) first_byte_[byte + 1] += first_byte_[byte];
}

size_t AddedTokens::certain_bytes(std::string_view text) const {
  size_t end = text.size() - std::min(text.size(), longest_);
  while (end > 0 && end < text.size() && is_continuation(text[end])) --end;
  return unicode::space_before(text.substr(0, end));
}

bool AddedTokens::is_word(std::string_view text, size_t begin, size_t end) {
  const bool joins_before =
      begin > 0 && unicode::is_word(unicode::last_character(text.substr(0, begin)));
  return !joins_before &&
         (end == text.size() || !unicode::is_word(first_character(text.substr(end)).code));
}

const AddedToken* AddedTokens::match(std::string_view text) const {
  const size_t first = static_cast<unsigned char>(text[0]);
  auto begin = tokens_.begin() + static_cast<ptrdiff_t>(first_byte_[first]);
  auto end = tokens_.begin() + static_cast<ptrdiff_t>(first_byte_[first + 1]);
  const AddedToken* longest = nullptr;
  // [begin, end): the tokens that begin with the first `length` bytes of the text.
  for (size_t length = 1; begin != end; ++length) {
    if (begin->content.size() == length) longest = &*begin++;  // the shortest sorts first
    if (length == text.size()) break;
    const auto next = static_cast<unsigned char>(text[length]);
    begin = std::partition_point(begin, end,
                                 [&](const AddedToken& t) { return byte_at(t, length) < next; });
    end = std::partition_point(begin, end,
                               [&](const AddedToken& t) { return byte_at(t, length) == next; });
  }
  return longest;
}

}  // namespace ds
