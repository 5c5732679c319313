// Tokens that are found in a text before anything else is done to it: leftmost first, then longest.
// The number of tokens costs nothing per byte of text; their length is bounded by kLongest, and so
// are their bytes together.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/models/token_tree.h"
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
  static constexpr size_t kLongest = TokenTree::kLongestToken;
  // A million tokens of some thirty bytes each are ten times what any file has.
  static constexpr size_t kMostBytes = size_t{1} << 25;

  // If two tokens have the same content the first one counts. DataError for more than kMostBytes.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // A word may be told only by what lies before it, which a part of a text does not show.
  bool begins_anywhere() const { return !has_words_; }

  // Calls `on_text` and `on_token` for the sections of the text in order. A section of text comes
  // with how far it is wanted, and on_text() says how many bytes of it were taken; so does this.
  // White space that a token takes from its right is searched for tokens, too, and what follows the
  // last of them is text again, as in PyPI tokenizers.
  template <class OnText, class OnToken>
  size_t split(std::string_view text, const TextPart& part, const OnText& on_text,
               const OnToken& on_token) const {
    const size_t certain = part.goes_on ? certain_bytes(text) : text.size();
    SpaceRun space;
    size_t rest = 0;
    for (size_t at = 0; at < certain && (rest < part.stop || at < rest);) {
      const AddedToken* token = match(text.substr(at));
      if (token == nullptr) {
        ++at;
        continue;
      }
      size_t begin = at;
      at += token->content.size();
      if (token->where == AddedToken::Where::kWholeWord && !is_word(text, begin, at)) continue;
      if (token->left == AddedToken::Strip::kStrip) begin = left_end(text, rest, begin);
      const bool strips = token->right == AddedToken::Strip::kStrip;
      const size_t end = strips ? space.end(text, at) : at;
      if (begin >= end) continue;  // its place was taken whole by a token before it
      if (begin > rest) {
        rest += on_text(text.substr(rest, begin - rest), {.stop = part.after(rest).stop});
        if (rest < begin || rest >= part.stop) return rest;
      }
      // Tokens within white space may reach beyond what is there of a text that goes on.
      if (part.goes_on &&
          (end == text.size() || (strips && (end > certain || holds_token(text, at, end)))))
        return rest;
      on_token(token->id);
      rest = end;
    }
    if (rest >= std::min(certain, part.stop)) return rest;
    return rest + on_text(text.substr(rest, certain - rest), part.after(rest));
  }

 private:
  // The run of white space that was looked at last: tokens within a long one look once.
  class SpaceRun {
   public:
    size_t end(std::string_view text, size_t from) {
      if (from < begin_ || from > end_) {
        begin_ = from;
        end_ = from + unicode::space_after(text.substr(from));
      }
      return end_;
    }

   private:
    size_t begin_ = 1, end_ = 0;
  };

  // Returns where a token begins with the white space before it that no other token has.
  static size_t left_end(std::string_view text, size_t rest, size_t begin) {
    if (rest >= begin) return rest;
    return rest + unicode::space_before(text.substr(rest, begin - rest));
  }
  // Returns up to where whatever follows the text changes nothing about which tokens begin, nor
  // about what white space is theirs.
  size_t certain_bytes(std::string_view text) const;
  // Whether no letter or digit, or what belongs to them, lies beside this part of the text.
  static bool is_word(std::string_view text, size_t begin, size_t end);
  // Whether a token begins in [begin, end).
  bool holds_token(std::string_view text, size_t begin, size_t end) const {
    while (begin < end && match(text.substr(begin)) == nullptr) ++begin;
    return begin < end;
  }
  // The longest token that the text begins with, or null.
  const AddedToken* match(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  TokenTree tree_;                     // of places in tokens_
  std::array<bool, 256> may_begin_{};  // whether a token begins with a byte
  size_t longest_ = 0;
  bool has_words_ = false;
};

}  // namespace ds
