// Rotary position embedding (Su et al., arXiv 2104.09864) in the half-split layout of Hugging Face
// Llama: element j of the first half pairs with element j of the second.
#pragma once

#include "kernels/attention.h"

namespace ds::kernels {

enum class Rotation : uint8_t { kForward, kInverse };  // the inverse is the backward

// Rotates queries and keys of qkv [batch*T, packed()] in place; row b*T + t has position
// first_position + t. theta: base of the frequencies theta^(-2j/D).
void rope(Stream& stream, const AttentionShape& shape, float theta, int64_t first_position,
          Rotation rotation, Tensor& qkv);

}  // namespace ds::kernels
