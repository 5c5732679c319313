// How much longer a text may become on its way to tokens, and tokens on their way to a text, so
// that no file makes much of little (pure).
#pragma once

#include <cstddef>

namespace ds {

// DataError where what a step made of a text of `before` bytes is longer than 64 times that, and a
// MiB besides.
void require_sane_growth(size_t bytes, size_t before);

// What all steps together may write for one text: 512 bytes for each of its own, and 16 MiB.
class WritingRoom {
 public:
  explicit WritingRoom(size_t text_bytes);
  void take(size_t bytes);  // DataError once nothing is left

 private:
  size_t text_bytes_, left_;
};

}  // namespace ds
