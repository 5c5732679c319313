// Tokens that are found in a text before anything else is done to it: leftmost first, then longest.
// The number of tokens costs nothing per byte of text but its logarithm where one may begin; their
// length is bounded by kLongest.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/text/text_part.h"
#include "data/tokenizer/text/unicode.h"

namespace ds {

struct AddedToken {
  enum class Strip { kKeep, kStrip };  // white space beside the token
  enum class Where { kAnywhere, kWholeWord };
  std::string content;  // not empty
  int32_t id;
  Strip left = Strip::kKeep, right = Strip::kKeep;
  Where where = Where::kAnywhere;
};

// Thread-safe once built.
class AddedTokens {
 public:
  static constexpr size_t kLongest = 1024;  // bytes

  // If two tokens have the same content the first one counts.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // A word may be told only by what lies before it, which a part of a text does not show.
  bool begins_anywhere() const { return !has_words_; }

  // Calls `on_text` and `on_token` for the sections of the text in order. A section of text comes
  // with how far it is wanted, and on_text() says how many bytes of it were taken; so does this.
  template <class OnText, class OnToken>
  size_t split(std::string_view text, const TextPart& part, const OnText& on_text,
               const OnToken& on_token) const {
    const size_t certain = part.goes_on ? certain_bytes(text) : text.size();
    size_t rest = 0;
    for (size_t at = 0; at < certain && rest < part.stop;) {
      const AddedToken* token = match(text.substr(at));
      if (token == nullptr) {
        ++at;
        continue;
      }
      size_t begin = at;
      at += token->content.size();
      if (token->where == AddedToken::Where::kWholeWord && !is_word(text, begin, at)) continue;
      if (token->left == AddedToken::Strip::kStrip)
        begin = rest + unicode::space_before(text.substr(rest, begin - rest));
      if (token->right == AddedToken::Strip::kStrip) at += unicode::space_after(text.substr(at));
      if (begin > rest) {
        rest += on_text(text.substr(rest, begin - rest), {.stop = part.after(rest).stop});
        if (rest < begin || rest >= part.stop) return rest;
      }
      if (part.goes_on && at == text.size()) return rest;  // its white space may follow
      on_token(token->id);
      rest = at;
    }
    if (rest >= std::min(certain, part.stop)) return rest;
    return rest + on_text(text.substr(rest, certain - rest), part.after(rest));
  }

 private:
  // Returns up to where whatever follows the text changes nothing about which tokens begin, nor
  // about what white space is theirs.
  size_t certain_bytes(std::string_view text) const;
  // Whether no letter or digit, or what belongs to them, lies beside this part of the text.
  static bool is_word(std::string_view text, size_t begin, size_t end);
  // The longest token that the text begins with, or null.
  const AddedToken* match(std::string_view text) const;

  std::vector<AddedToken> tokens_;        // sorted by content
  std::array<size_t, 257> first_byte_{};  // where tokens that begin with a byte are in tokens_
  size_t longest_ = 0;
  bool has_words_ = false;
};

}  // namespace ds
