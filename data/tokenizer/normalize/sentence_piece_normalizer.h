// What SentencePiece does to a text before it cuts it (pure): the longest replacement of its table
// at each place, fewer spaces, a sign in the place of a space, and one that stands for where the
// text begins or ends.
#pragma once

#include "data/tokenizer/normalize/normalizer.h"

namespace ds {

struct SentencePieceNormalizing {
  // Whether each part of a text between tokens that were found before begins as a text does.
  enum class Prefix { kNone, kFirstPart, kEveryPart };
  std::string table = {};  // of replacements; empty: none
  Prefix prefix = Prefix::kEveryPart;
  bool remove_extra_whitespaces = true, escape_whitespaces = true;
  bool whitespace_as_suffix = false;   // the sign is put behind the text
  std::vector<std::string> kept = {};  // stays as it is: pieces of the user's own
};
// DataError for a table that is none.
std::unique_ptr<Normalizer> sentence_piece_normalizer(const SentencePieceNormalizing& how);

}  // namespace ds
