// Token and position embedding.
#pragma once

#include "core/tensor.h"
#include "kernels/gemm/matmul.h"

namespace ds::kernels {

// y [N, C] = table[tokens] (+ positions[first_position + row % length] when `positions` is
// defined). tokens int32 [N], table [V, C], positions [P, C]; a token outside [0, V) throws
// DataError with its row.
void embedding_forward(Stream& stream, const Tensor& tokens, const Tensor& table,
                       const Tensor& positions, int64_t length, int64_t first_position, Tensor& y);
// dtable[tokens[i]] += dy[i], in row order for each token (deterministic); kOverwrite clears dtable
// first.
void embedding_backward(Stream& stream, const Tensor& tokens, const Tensor& dy, Write write,
                        Tensor& dtable);
// dpositions[t] = sum over rows i with i % length == t of dy[i]; rows beyond `length` become 0.
void position_backward(Stream& stream, const Tensor& dy, int64_t length, Write write,
                       Tensor& dpositions);

}  // namespace ds::kernels
