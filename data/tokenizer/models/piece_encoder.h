// What turns one piece of a text into tokens: each kind of model of a tokenizer.json is one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ds {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Vocabulary = std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>>;

std::optional<int32_t> find_token(const Vocabulary& vocabulary, std::string_view token);

// The tokens "<0x00>" to "<0xFF>", by which SentencePiece writes bytes that no other token has.
class ByteTokens {
 public:
  ByteTokens() = default;  // none
  explicit ByteTokens(const Vocabulary& vocabulary);
  // Appends those of the bytes, and says so, where the vocabulary has all of them.
  bool append(std::string_view bytes, std::vector<int32_t>& out) const;

 private:
  std::vector<int32_t> ids_;  // of every byte, -1 where there is none; empty: of no byte
};

// Thread-safe once built.
class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  // Appends the ids of a piece, which is not empty. DataError, naming it, for what no token stands
  // for.
  virtual void encode(std::string_view piece, std::vector<int32_t>& out) const = 0;
};

// BERT's: the longest token that the piece begins with, then the longest that goes on with `prefix`
// before it (Schuster and Nakajima 2012, greedy). A piece that cannot be cut like this, and a
// longer one than `longest` characters, is `unknown`.
struct WordPieceForm {
  std::string unknown = "[UNK]", prefix = "##";
  size_t longest = 100;
};
std::unique_ptr<PieceEncoder> word_piece(Vocabulary vocabulary, WordPieceForm form);

// Each piece is a token, or `unknown`.
std::unique_ptr<PieceEncoder> word_level(Vocabulary vocabulary, std::string unknown);

// SentencePiece's: of all cuts into tokens the one whose scores, logarithms of probabilities, have
// the largest sum (Kudo 2018, Viterbi's algorithm). A character without a token costs ten less than
// the least score; runs of such characters are one `unknown`, or their bytes' tokens where
// `byte_fallback` is set and all of them are there.
struct ScoredToken {
  std::string token;
  double score;
};
struct UnigramForm {
  std::optional<int32_t> unknown;
  bool byte_fallback = false;
};
std::unique_ptr<PieceEncoder> unigram(const std::vector<ScoredToken>& tokens, UnigramForm form);

}  // namespace ds
