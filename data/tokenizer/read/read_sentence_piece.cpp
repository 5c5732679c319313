#include <limits>

#include "core/status/error.h"
#include "data/tokenizer/models/sentence_piece.h"
#include "data/tokenizer/normalize/sentence_piece_normalizer.h"
#include "data/tokenizer/read/parts.h"
#include "data/tokenizer/text/base64.h"

namespace ds {
namespace {

template <class Choice>
struct Named {
  const char* name;
  Choice choice;
};

// The choice that a member names. DataError where it names none of them.
template <class Choice, size_t kCount>
Choice named(const JsonPart& part, const char* key, const Named<Choice> (&known)[kCount]) {
  const std::string name = part.text(key);
  for (const Named<Choice>& candidate : known) {
    if (name == candidate.name) return candidate.choice;
  }
  part.refuse(fmt::format("\"{}\" of {} is \"{}\", which is not known", key, part.type(), name));
}

// ["text", score, kind]
SentencePieces::Piece read_piece(const JsonPart& part, size_t id) {
  const JsonPart::Json& item = part.value();
  if (!item.IsArray() || item.Size() != 3 || !item[0].IsString() || !item[1].IsNumber() ||
      !item[2].IsInt() || item[2].GetInt() < 1 || item[2].GetInt() > 6) {
    part.refuse(fmt::format("piece {} of model.vocab is no text with a score and a kind", id));
  }
  const double score = item[1].GetDouble();
  if (!(score <= std::numeric_limits<float>::max() &&
        score >= std::numeric_limits<float>::lowest()))
    part.refuse(fmt::format("the score of piece {} is no number of 32 bits", id));
  return {.text = part.characters_of(item[0]),
          .score = static_cast<float>(score),
          .kind = static_cast<SentencePieces::Kind>(item[2].GetInt())};
}

}  // namespace

std::string read_replacement_table(const JsonPart& part) {
  auto table = from_base64(part.text("precompiled_charsmap", ""));
  if (!table) part.refuse("precompiled_charsmap is no base64");
  return std::move(*table);
}

std::unique_ptr<PieceEncoder> read_sentence_piece(const JsonPart& model, ReadSteps&,
                                                  TokenTexts& texts) {
  using Algorithm = SentencePieces::Algorithm;
  SentencePieces pieces;
  pieces.algorithm = named<Algorithm>(model, "algorithm",
                                      {{"unigram", Algorithm::kUnigram},
                                       {"byte_pair", Algorithm::kBytePair},
                                       {"word", Algorithm::kWord},
                                       {"character", Algorithm::kCharacter}});
  pieces.byte_fallback = model.flag("byte_fallback", false);
  for (const JsonPart& part : model.list("vocab")) {
    pieces.pieces.push_back(read_piece(part, pieces.pieces.size()));
    texts.add(model, std::ssize(pieces.pieces) - 1, pieces.pieces.back().text);
  }
  try {
    return sentence_piece(pieces);
  } catch (const DataError& error) {
    model.refuse(error.what());
  }
}

std::unique_ptr<Normalizer> read_sentence_piece_normalizer(const JsonPart& part) {
  using Prefix = SentencePieceNormalizing::Prefix;
  SentencePieceNormalizing how{
      .table = read_replacement_table(part),
      .prefix = named<Prefix>(
          part, "prefix",
          {{"none", Prefix::kNone}, {"first", Prefix::kFirstPart}, {"every", Prefix::kEveryPart}}),
      .remove_extra_whitespaces = part.flag("remove_extra_whitespaces", true),
      .escape_whitespaces = part.flag("escape_whitespaces", true),
      .whitespace_as_suffix = part.flag("whitespace_as_suffix", false)};
  for (const JsonPart& text : part.list("kept")) {
    if (!text.value().IsString() || text.value().GetStringLength() == 0)
      part.refuse("\"kept\" lists what is no text");
    how.kept.push_back(text.characters_of(text.value()));
  }
  try {
    return sentence_piece_normalizer(how);
  } catch (const DataError& error) {
    part.refuse(error.what());
  }
}

std::unique_ptr<TokenDecoder> read_sentence_piece_decoder(const JsonPart& part) {
  using Strip = SentencePieceDecoding::Strip;
  return decode_sentence_pieces(
      {.strip = named<Strip>(part, "strip",
                             {{"none", Strip::kNone}, {"one", Strip::kOne}, {"all", Strip::kAll}}),
       .bytes = part.flag("bytes", false),
       .unknown = part.text("unknown", ""),
       .unknown_surface = part.text("unknown_surface", "")});
}

}  // namespace ds
