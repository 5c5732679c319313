#include "data/tokenizer/split/added_tokens.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/text/text_kind.h"

namespace ds {
AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  Vocabulary places;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    DS_CHECK(!token.content.empty() && token.content.size() <= kLongest,
             "an added token of {} bytes, expected 1 to {}", token.content.size(), kLongest);
    if (!places.emplace(token.content, static_cast<int32_t>(i)).second) continue;
    may_begin_.at(static_cast<unsigned char>(token.content[0])) = true;
    longest_ = std::max(longest_, token.content.size());
    has_words_ = has_words_ || token.where == AddedToken::Where::kWholeWord;
  }
  tree_ = TokenTree(places, kMostBytes);
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
  if (!may_begin_.at(static_cast<unsigned char>(text[0]))) return nullptr;
  const TokenTree::Match found = tree_.longest(text);
  return found.bytes > 0 ? &nth(tokens_, found.id) : nullptr;
}

}  // namespace ds
