// What a tokenizer.model of SentencePiece says, out of its Protocol Buffers (pure).
#pragma once

#include <string>
#include <string_view>

#include "data/tokenizer/models/sentence_piece.h"

namespace ds {

struct SentencePieceModel {
  SentencePieces pieces;
  std::string replacements;  // precompiled_charsmap
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool whitespace_as_suffix = false;
  std::string unknown_surface = " \u2047 ";
  // What the pieces in these roles are written as, where the model has them.
  std::string bos = "<s>", eos = "</s>", pad = "<pad>";
};

// DataError for what is no such message, Unsupported for one that asks for what is not done.
SentencePieceModel parse_sentence_piece_model(std::string_view bytes);

}  // namespace ds
