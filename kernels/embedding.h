// Token and position embedding.
#pragma once

#include <span>

#include "core/tensor.h"
#include "kernels/gemm/matmul.h"

namespace ds::kernels {

// y [N, C] = table[tokens] (+ positions[first_position + row % length] when `positions` is
// defined). tokens int32 [N], table [V, C], positions [P, C]. Where tokens enter, they are checked
// against the vocabulary; one outside [0, V) is found here by the kernel itself, which reads
// nothing for it and, on the CPU, throws DataError with its row. On a CUDA device its row becomes
// NaN, and DeviceFlag::kTokenOutsideVocabulary is set (core/cuda/device_flags.h).
void embedding_forward(Stream& stream, const Tensor& tokens, const Tensor& table,
                       const Tensor& positions, int64_t length, int64_t first_position, Tensor& y);
// The order in which rows are added to the gradient of a table: order[0, N) are the numbers of the
// rows sorted by their tokens, rows of one token ascending, and order[N, 2N) are those tokens.
void sort_tokens(std::span<const int32_t> tokens, std::span<int32_t> order);
// The same as a tensor int32 [2, N] of the stream; waits for `tokens`, which the host sorts. On
// meta without a value.
Tensor token_order(Stream& stream, const Tensor& tokens);
// dtable[tokens[i]] += dy[i], in row order for each token (deterministic); kOverwrite clears dtable
// first. order: of sort_tokens(). A row or a token that does not exist throws DataError as above,
// before anything is written; on a CUDA device nothing is added for it, and
// DeviceFlag::kRowOutsideOrder or kTokenOutsideVocabulary is set.
void embedding_backward(Stream& stream, const Tensor& order, const Tensor& dy, Write write,
                        Tensor& dtable);
// dpositions[t] = sum over rows i with i % length == t of dy[i]; rows beyond `length` become 0.
void position_backward(Stream& stream, const Tensor& dy, int64_t length, Write write,
                       Tensor& dpositions);

}  // namespace ds::kernels
