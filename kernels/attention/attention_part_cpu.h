// The CPU half of kernels/attention_part. Operands have been checked.
#pragma once

#include "kernels/attention/attention_part.h"

namespace ds::kernels::detail {

// What the heads of a call are given, on every instruction set.
struct PartOperands {
  const AttentionPart& part;
  const Tensor& qkv;
  const Tensor& kv;
  Tensor* y = nullptr;  // forward
  Tensor* log_sum_exp = nullptr;
  Write write = Write::kOverwrite;
  const AttentionPartGrads* grads = nullptr;  // backward
};

void attention_part_forward_cpu(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                                const Tensor& kv, Tensor& y, Tensor& log_sum_exp, Write write);
void attention_delta_cpu(Stream& stream, const AttentionShape& shape, const Tensor& y,
                         const Tensor& dy, Tensor& delta);
void attention_part_backward_cpu(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                                 const Tensor& kv, const AttentionPartGrads& grads);

}  // namespace ds::kernels::detail
