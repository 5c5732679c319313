// The CUDA halves of kernels/attention.h. Internal to kernels/.
#pragma once

#include "core/stream.h"
#include "kernels/attention_operands.h"

namespace ds::kernels::detail {

// Unsupported for heads of more than 256 elements.
void attention_forward_cuda(Stream& stream, const AttentionOperands& operands);
void attention_backward_cuda(Stream& stream, const AttentionOperands& operands);
void attention_decode_cuda(Stream& stream, const AttentionShape& shape, const Tensor& q,
                           const Tensor& cache_k, const Tensor& cache_v, int64_t capacity,
                           Tensor& y);

}  // namespace ds::kernels::detail
