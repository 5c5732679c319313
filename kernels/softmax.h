// Softmax cross entropy fused with the output projection: logits exist for one block of rows at a
// time and are never materialised whole.
#pragma once

#include "core/tensor.h"
#include "kernels/gemm/matmul.h"

namespace ds::kernels {

struct LinearCrossEntropyArgs {
  Tensor x;       // [N, C]
  Tensor weight;  // [V, C]
  // int32 [N]; negative = ignored row. Where targets enter, they are checked against the
  // vocabulary; one of V or more is found here by the kernel itself, which reads nothing for it
  // and, on the CPU, throws DataError with its row.
  Tensor targets;
  Tensor losses;  // fp32 [N]: -log softmax(x * weight^T)[target], natural log; 0 for ignored rows
  // Backward in the same pass; all undefined for evaluation.
  float grad_scale = 1.0F;  // d(total)/d(losses[i]), equal for all rows
  Tensor dx = {};           // [N, C]
  Tensor dweight = {};      // [V, C]
  Write write_dweight = Write::kOverwrite;
};
// Bytes of fp32 logits that a block of rows may have. More means fewer passes over dweight, which
// every block reads and writes whole, and more scratch; what that is worth depends on the device.
// Meta stands for the CPU. Throws Unsupported where no value is known.
int64_t loss_block_bytes(Device device);
// Rows a block holds (its fp32 or bf16 logits are the scratch); the scratch is allocated here from
// the stream under MemoryTag::kScratch.
int64_t linear_cross_entropy_rows(Device device, int64_t vocabulary);
void linear_cross_entropy(Stream& stream, const LinearCrossEntropyArgs& args);

}  // namespace ds::kernels
