// The CPU half of kernels/attention. Operands have been checked.
#pragma once

#include "core/stream.h"
#include "kernels/attention_operands.h"

namespace ds::kernels::detail {

void attention_forward_cpu(Stream& stream, const AttentionOperands& operands);
void attention_backward_cpu(Stream& stream, const AttentionOperands& operands);

// The two ways of it. Products of fp32, to which operands of every type are widened; and products
// of bf16, for bf16 operands on CPUs that have them (kernels/cpu/attention_bf16.h), taken where
// prefers_bf16_dots().
void attention_forward_fp32(Stream& stream, const AttentionOperands& operands);
void attention_backward_fp32(Stream& stream, const AttentionOperands& operands);
void attention_forward_bf16(Stream& stream, const AttentionOperands& operands);
void attention_backward_bf16(Stream& stream, const AttentionOperands& operands);

void attention_decode_cpu(Stream& stream, const AttentionShape& shape, const Tensor& q,
                          const Tensor& cache_k, const Tensor& cache_v, int64_t capacity,
                          Tensor& y);

}  // namespace ds::kernels::detail
