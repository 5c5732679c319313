// The CPU half of kernels/attention. Operands have been checked.
#pragma once

#include "core/device/stream.h"
#include "kernels/attention/attention_operands.h"

namespace ds::kernels::detail {

void attention_forward_cpu(Stream& stream, const AttentionOperands& operands);
void attention_backward_cpu(Stream& stream, const AttentionOperands& operands);

// The two ways of it. Products of fp32, to which operands of every type are widened; and products
// of bf16, for bf16 operands on CPUs that have them (kernels/attention/attention_cpu_bf16.h), taken
// if prefers_bf16_dots() and no score is capped.
void attention_forward_fp32(Stream& stream, const AttentionOperands& operands);
void attention_backward_fp32(Stream& stream, const AttentionOperands& operands);
void attention_forward_bf16(Stream& stream, const AttentionOperands& operands);
void attention_backward_bf16(Stream& stream, const AttentionOperands& operands);

void attention_decode_cpu(Stream& stream, const DecodeOperands& operands);

}  // namespace ds::kernels::detail
