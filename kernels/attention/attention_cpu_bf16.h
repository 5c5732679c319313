// Attention of bf16 operands by the CPU's own bf16 products. Operands enter them as they are
// stored; the weights and the gradients of the scores are rounded to bf16 first, as flash kernels
// on GPUs do. Every sum and the softmax are fp32. Only where has_bf16_dots().
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/attention_operands.h"

namespace ds::kernels::detail {

// Floats of one thread's workspace, on a cache-line border, for both directions.
size_t attention_bf16_workspace(const AttentionShape& shape);

// Query heads [first, first + count) of those of all samples; they share one head of keys.
void attention_bf16_heads(const AttentionOperands& operands, int64_t first, int64_t count,
                          float* workspace);

// One key-value head, number `item` of those of all samples.
void attention_bf16_backward_item(const AttentionOperands& operands, int64_t item,
                                  float* workspace);

}  // namespace ds::kernels::detail
