// The CPU half of kernels/attention. Operands have been checked.
#pragma once

#include "core/stream.h"
#include "kernels/attention_operands.h"

namespace ds::kernels::detail {

void attention_forward_cpu(Stream& stream, const AttentionOperands& operands);
void attention_backward_cpu(Stream& stream, const AttentionOperands& operands);
void attention_decode_cpu(Stream& stream, const AttentionShape& shape, const Tensor& q,
                          const Tensor& cache_k, const Tensor& cache_v, int64_t capacity,
                          Tensor& y);

}  // namespace ds::kernels::detail
