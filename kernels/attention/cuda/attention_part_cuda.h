// The CUDA half of kernels/attention_part. Operands have been checked.
#pragma once

#include "kernels/attention/attention_part.h"

namespace ds::kernels::detail {

// Unsupported for heads of more than 256 elements.
void attention_part_forward_cuda(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                                 const Tensor& kv, Tensor& y, Tensor& log_sum_exp, Write write);
void attention_delta_cuda(Stream& stream, const AttentionShape& shape, const Tensor& y,
                          const Tensor& dy, Tensor& delta);
void attention_part_backward_cuda(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                                  const Tensor& kv, const AttentionPartGrads& grads);

}  // namespace ds::kernels::detail
