#include "data/text_memory.h"

namespace ds {
namespace {

// A part of the text, what stands behind it, and its ids.
constexpr int64_t kTokenizingBytesOfThread = int64_t{16} << 20;

}  // namespace

TextMemory memory_of_texts(const TextBytes& texts, const TextReaders& readers) {
  const int64_t large = texts.large + (readers.reads_in_place ? 0 : texts.large_plain);
  const int64_t small = texts.small + (readers.reads_in_place ? 0 : texts.small_plain);
  const bool keeps_small = readers.has_cache && small >= kLeastKeptText;
  const int64_t held = (readers.has_cache ? 0 : large) + (keeps_small ? 0 : small);
  const bool tokenizes = readers.has_cache && (large > 0 || keeps_small);
  return {.held_bytes = held * (readers.takes_bytes ? 1 : 4),
          .tokenizing_bytes = tokenizes ? readers.threads * kTokenizingBytesOfThread : 0};
}

}  // namespace ds
