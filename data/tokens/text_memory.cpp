#include "data/tokens/text_memory.h"

#include <algorithm>

namespace ds {
namespace {

// A part of the text, what stands behind it, and its ids.
constexpr int64_t kTokenizingBytesOfThread = int64_t{16} << 20;
// Bytes for each byte of a text that is encoded whole: a buffer that has doubled, what the
// normalizers made of it, its pieces, its ids. All plain texts are counted as if they were one.
constexpr int64_t kBytesOfWholeText = 12;

struct Shares {
  int64_t held = 0;  // text
  bool is_tokenized = false;
};

Shares shares_of(const TextBytes& run, const TextReaders& readers) {
  const int64_t large = run.large + (readers.reads_in_place ? 0 : run.large_plain);
  const int64_t small = run.small + (readers.reads_in_place ? 0 : run.small_plain);
  const bool keeps_small = readers.has_cache && small >= kLeastKeptText;
  return {.held = (readers.has_cache ? 0 : large) + (keeps_small ? 0 : small),
          .is_tokenized = readers.has_cache && (large > 0 || keeps_small)};
}

}  // namespace

TextMemory memory_of_texts(std::span<const TextBytes> runs, const TextReaders& readers) {
  TextMemory out;
  for (const TextBytes& run : runs) {
    const Shares shares = shares_of(run, readers);
    out.held_bytes += shares.held * (readers.takes_bytes ? 1 : 4);
    if (!shares.is_tokenized) continue;
    const int64_t whole =
        readers.holds_texts ? kBytesOfWholeText * (run.large_plain + run.small_plain) : 0;
    out.tokenizing_bytes =
        std::max(out.tokenizing_bytes, readers.threads * kTokenizingBytesOfThread + whole);
  }
  return out;
}

}  // namespace ds
