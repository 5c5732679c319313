// The parts of a tokenizer.json, each read by a function of its own. All of them throw DataError
// for what is malformed and Unsupported for what this build does not know, naming the file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/decode/token_decoder.h"
#include "data/tokenizer/models/piece_encoder.h"
#include "data/tokenizer/normalize/normalizer.h"
#include "data/tokenizer/read/json_part.h"
#include "data/tokenizer/split/added_tokens.h"
#include "data/tokenizer/split/pre_tokenizer.h"

namespace ds {

// The precompiled_charsmap of a part; empty where it has none.
std::string read_replacement_table(const JsonPart& part);

Normalizers read_normalizers(const JsonPart& normalizer);
TokenDecoders read_decoders(const JsonPart& decoder);

// Parts of the type SentencePiece, which no tokenizer.json of others has: forms/ writes so what
// a model of SentencePiece says.
std::unique_ptr<Normalizer> read_sentence_piece_normalizer(const JsonPart& part);
std::unique_ptr<TokenDecoder> read_sentence_piece_decoder(const JsonPart& part);

struct ReadSteps {
  std::vector<PreTokenizerStep> steps;
  // The last thing that happens to pieces is that their bytes are written in GPT-2's letters, and
  // no step here does it: a model that knows may work on the bytes.
  bool ends_in_byte_letters = false;
};
ReadSteps read_steps(const JsonPart& pre_tokenizer);

// {"Regex": ...} or {"String": ...}
std::shared_ptr<const Pattern> read_pattern(const JsonPart& holder);

// What each id is written as. No table with a place for every id: one high id, as a file may claim,
// must cost no more than any other.
class TokenTexts {
 public:
  static constexpr int64_t kLargestId = 1 << 24;
  // DataError where the id is out of range or is another token's.
  void add(const JsonPart& part, int64_t id, const std::string& text);
  // Another text for an id that is there.
  void rewrite(int32_t id, std::string text) { texts_.at(id) = std::move(text); }
  const std::string* find(int32_t id) const;
  int64_t vocab_size() const { return vocab_size_; }

 private:
  std::unordered_map<int32_t, std::string> texts_;
  int64_t vocab_size_ = 0;
};

std::unique_ptr<PieceEncoder> read_sentence_piece(const JsonPart& model, ReadSteps& pre_tokenizer,
                                                  TokenTexts& texts);

// May add steps that change nothing but the time that a model takes.
std::unique_ptr<PieceEncoder> read_model(const JsonPart& model, ReadSteps& pre_tokenizer,
                                         TokenTexts& texts);

// Those that are looked for in the text as it is, and after the normalizers.
struct ReadAdded {
  std::vector<AddedToken> verbatim, normalized;
};
ReadAdded read_added(const JsonPart& document, TokenTexts& texts);

}  // namespace ds
