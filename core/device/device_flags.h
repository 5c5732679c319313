// What kernels of a CUDA device find wrong with the numbers in their operands. Where a CPU throws,
// a kernel sets a bit in a word of its stream and goes on; the host reads the word where it reads
// results. Refuses to say which number it was: the kernel's documentation says what its results
// became.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/device/stream.h"

namespace ds {

enum class DeviceFlag : uint32_t {
  kTokenOutsideVocabulary = 1U << 0,   // of an embedding
  kTargetOutsideVocabulary = 1U << 1,  // of a loss
  kRowOutsideOrder = 1U << 2,          // of an embedding's gradient
  kExpertOutsideLayer = 1U << 3,       // of a token's choice
  kPlaceOutsideRows = 1U << 4,         // of a row that goes to an expert, or comes back
};

// DataError that begins with `where` and says what is in `found`, unless that is nothing.
void require_none_found(std::string_view where, uint32_t found);

// A handle: all of a stream's share its word. A step takes what is in the word with it
// (finish_step() in kernels/step/scalars.h); who runs kernels without one calls wait_and_check().
class DeviceFlags {
 public:
  // The first handle makes the word, from stream.memory() under MemoryTag::kScratch, where it stays
  // as long as the stream. Streams of CPUs, and of meta that stand for them, have none.
  explicit DeviceFlags(Stream& stream);

  uint32_t* word() const { return word_; }  // for kernels of the stream; null where there is none
  // Waits for the work that the stream has been given. Where flags are set they are cleared, and
  // told by require_none_found().
  void wait_and_check(std::string_view where) const;

 private:
  Stream* stream_;
  uint32_t* word_ = nullptr;
};

}  // namespace ds
