// The CUDA halves of kernels/attention/attention.h. Internal to kernels/.
#pragma once

#include "core/device/stream.h"
#include "kernels/attention/attention_operands.h"

namespace ds::kernels::detail {

// Unsupported for heads of more than 256 elements.
void attention_forward_cuda(Stream& stream, const AttentionOperands& operands);
void attention_backward_cuda(Stream& stream, const AttentionOperands& operands);
void attention_decode_cuda(Stream& stream, const DecodeOperands& operands);

}  // namespace ds::kernels::detail
