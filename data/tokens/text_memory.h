// How much memory texts take before training begins, by what a look at them has found (pure).
#pragma once

#include <cstdint>
#include <span>

#include "data/tokens/dataset.h"

namespace ds {

// Texts of at least so many bytes, alone or together, are worth keeping in a cache of tokens.
inline constexpr int64_t kLeastKeptText = int64_t{16} << 20;

struct TextMemory {
  int64_t held_bytes = 0;        // at most, of each rank, for as long as it trains
  int64_t tokenizing_bytes = 0;  // of one process of a host, until its texts are tokenised
};

struct TextReaders {
  bool has_cache = true;
  bool takes_bytes = false;     // the tokenizer is "byte"
  bool reads_in_place = false;  // and nothing is put between plain texts
  bool holds_texts = false;     // the tokenizer encodes no text in parts
  int threads = 1;              // that tokenise, of one host
};

// Ids take four bytes each where they are held in memory, those that are bytes one; there is no
// more than one for each byte. The ids of plain text that are its bytes are read from where they
// are.
TextMemory memory_of_texts(std::span<const TextBytes> runs, const TextReaders& readers);

}  // namespace ds
