#include "data/tokenizer/forms/sentence_piece_model.h"

#include <cmath>

#include "core/status/error.h"
#include "core/text/utf8.h"
#include "data/tokenizer/forms/protobuf_fields.h"

namespace ds {
namespace {

// Some ten times as many as the largest vocabularies have.
constexpr size_t kMostPieces = size_t{1} << 21;

std::string text_of(const ProtobufFields& field, const char* what) {
  std::string text(field.bytes());
  if (first_invalid_utf8(text) != std::string::npos)
    throw DataError(fmt::format("{} is no UTF-8", what));
  return text;
}

SentencePieces::Piece read_piece(std::string_view bytes) {
  SentencePieces::Piece piece;
  ProtobufFields fields(bytes, "a piece");
  while (fields.next()) {
    switch (fields.number()) {
      case 1:
        piece.text = text_of(fields, "the text of a piece");
        break;
      case 2:
        piece.score = fields.number32();
        if (!std::isfinite(piece.score))
          throw DataError("the score of a piece is no finite number");
        break;
      case 3: {
        const int64_t kind = fields.integer();
        if (kind < 1 || kind > 6)
          throw DataError(fmt::format("a piece is of type {}, expected 1 to 6", kind));
        piece.kind = static_cast<SentencePieces::Kind>(kind);
        break;
      }
      default:
        break;
    }
  }
  return piece;
}

void read_trainer(std::string_view bytes, SentencePieceModel& model) {
  ProtobufFields fields(bytes, "trainer_spec");
  const auto set = [&](std::string& role) {
    if (!fields.bytes().empty()) role = text_of(fields, "the text of a role");
  };
  while (fields.next()) {
    switch (fields.number()) {
      case 3: {
        const int64_t type = fields.integer();
        if (type < 1 || type > 4)
          throw DataError(fmt::format("trainer_spec.model_type is {}, expected 1 to 4", type));
        model.pieces.algorithm = static_cast<SentencePieces::Algorithm>(type);
        break;
      }
      case 24:
        model.whitespace_as_suffix = fields.flag();
        break;
      case 35:
        model.pieces.byte_fallback = fields.flag();
        break;
      case 44:
        model.unknown_surface = text_of(fields, "unk_surface");
        break;
      case 46:
        set(model.bos);
        break;
      case 47:
        set(model.eos);
        break;
      case 48:
        set(model.pad);
        break;
      default:  // says how the model was trained
        break;
    }
  }
}

void read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  ProtobufFields fields(bytes, "normalizer_spec");
  while (fields.next()) {
    switch (fields.number()) {
      case 2:
        model.replacements = fields.bytes();
        break;
      case 3:
        model.add_dummy_prefix = fields.flag();
        break;
      case 4:
        model.remove_extra_whitespaces = fields.flag();
        break;
      case 5:
        model.escape_whitespaces = fields.flag();
        break;
      default:  // the rules that the table was made of
        break;
    }
  }
}

void read_denormalizer(std::string_view bytes) {
  ProtobufFields fields(bytes, "denormalizer_spec");
  while (fields.next()) {
    if (fields.number() == 2 && !fields.bytes().empty())
      throw Unsupported("denormalizer_spec.precompiled_charsmap is not supported");
  }
}

}  // namespace

SentencePieceModel parse_sentence_piece_model(std::string_view bytes) {
  SentencePieceModel model;
  ProtobufFields fields(bytes, "the model");
  while (fields.next()) {
    switch (fields.number()) {
      case 1:
        if (model.pieces.pieces.size() == kMostPieces)
          throw DataError(fmt::format("it has more than {} pieces", kMostPieces));
        model.pieces.pieces.push_back(read_piece(fields.bytes()));
        break;
      case 2:
        read_trainer(fields.bytes(), model);
        break;
      case 3:
        read_normalizer(fields.bytes(), model);
        break;
      case 5:
        read_denormalizer(fields.bytes());
        break;
      default:  // tests of its own, and what others have added
        break;
    }
  }
  if (model.pieces.pieces.empty()) throw DataError("it has no pieces");
  return model;
}

}  // namespace ds
