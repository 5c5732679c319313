// How tokens become text again: each kind of decoder of a tokenizer.json is one of these (pure).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/split/pattern.h"

namespace ds {

// Thread-safe.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Changes the tokens, as they are written in the vocabulary, on their way to be parts of a text.
  // `work`: what all decoders of a text may do.
  virtual void apply(std::vector<std::string>& tokens, PatternWork& work) const = 0;
};
using TokenDecoders = std::vector<std::unique_ptr<TokenDecoder>>;

std::unique_ptr<TokenDecoder> decode_byte_letters();  // a token with other characters stays
std::unique_ptr<TokenDecoder> decode_space_sign(std::string sign, bool drops_first);
// Runs of "<0x..>" become their bytes. Of a run that is no valid UTF-8 each byte is U+FFFD, but
// that one may be cut which ends the text.
std::unique_ptr<TokenDecoder> decode_byte_tokens();
std::unique_ptr<TokenDecoder> join_tokens();
std::unique_ptr<TokenDecoder> join_with_spaces();
// Takes up to so many of a character from the ends of each token.
std::unique_ptr<TokenDecoder> decode_strip(std::string character, size_t left, size_t right);
std::unique_ptr<TokenDecoder> decode_replace(std::shared_ptr<const Pattern> pattern,
                                             std::string content);
std::unique_ptr<TokenDecoder> decode_word_piece(std::string prefix, bool cleanup);
std::unique_ptr<TokenDecoder> decode_suffix(std::string suffix);  // which ends words

// SentencePiece's: signs become spaces, and those of bytes their bytes, of which each that is no
// part of valid UTF-8 is U+FFFD, but for a character that the end of the text has cut.
struct SentencePieceDecoding {
  // How many signs go that a text begins with: what stands for its beginning.
  enum class Strip { kNone, kOne, kAll };
  Strip strip = Strip::kAll;
  bool bytes = false;
  std::string unknown = {}, unknown_surface = {};  // what is shown for the unknown piece
};
std::unique_ptr<TokenDecoder> decode_sentence_pieces(SentencePieceDecoding how);

}  // namespace ds
