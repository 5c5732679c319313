// What Google's SentencePiece does with a normalized text: its four algorithms, over the pieces of
// a model with their scores and kinds (pure). A whole text is one piece of the pre-tokenizer.
#pragma once

#include "data/tokenizer/models/piece_encoder.h"

namespace ds {

struct SentencePieces {
  // As the file numbers them.
  enum class Kind {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  enum class Algorithm { kUnigram = 1, kBytePair = 2, kWord = 3, kCharacter = 4 };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::kNormal;
  };
  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::kUnigram;
  bool byte_fallback = false;
};

// A text of what no piece stands for is one unknown piece, or the pieces of its bytes with
// `byte_fallback`. DataError for pieces that no such model has: none or two that are unknown, two
// of one text, a text that is empty or no UTF-8, bytes that are missing.
std::unique_ptr<PieceEncoder> sentence_piece(const SentencePieces& model);

}  // namespace ds
