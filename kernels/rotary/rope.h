// Rotary position embedding (Su et al., arXiv 2104.09864): pairs of elements of queries and keys
// turn by an angle that is their position times a frequency of their own.
#pragma once

#include <vector>

#include "kernels/attention/attention.h"

namespace ds::kernels {

enum class Rotation : uint8_t { kForward, kInverse };  // the inverse is the backward

struct RotaryTable {
  // A pair turns by so many radians per position. A head turns in its first 2 * pairs elements.
  std::vector<float> frequencies{};
  float factor = 1;  // sines and cosines are multiplied by it
  // Elements 2 j and 2 j + 1 are a pair, and not j and j + pairs as in Hugging Face's Llama.
  bool pairs_neighbours = false;
};

// These are the positions of the rows of a batch of sequences.
struct RowPositions {
  int64_t first = 0;  // row t of each sequence has position first + t,
  Tensor rows{};      // unless these say it: int32 [batch * T], none below 0
};

// Turns queries and keys of qkv [batch*T, packed()] in place.
void rope(Stream& stream, const AttentionShape& shape, const RotaryTable& table,
          const RowPositions& positions, Rotation rotation, Tensor& qkv);

}  // namespace ds::kernels
