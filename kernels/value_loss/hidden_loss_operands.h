// Operands of losses of hidden states, for the front and both halves.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

// With w the weight of a row, losses[i] = weight w mean over c of (student[i, c] -
// teacher[i, c])^2, as torch's mse_loss has it for one row (hidden states as hints: Romero et al.,
// arXiv 1412.6550).
// The gradient of a student's number s is weight w grad_scale loss_scale 2 (s - t) / C. Arithmetic
// and losses are fp32. Operands that do not fit throw InternalError.
struct HiddenLossArgs {
  Tensor student;  // [N, C], fp32, bf16 or fp16; C at least 1
  Tensor teacher;  // [N, C], any of these
  Tensor targets;  // int32 [N]; negative = ignored row: its loss and its gradients are 0
  // fp32 [N], none below 0; a row of weight 0 is ignored. Undefined: all are 1.
  Tensor row_weights{};
  float weight = 1;         // of all rows, 0 or more
  Tensor losses;            // fp32 [N]
  float grad_scale = 1.0F;  // d(total)/d(losses[i]), equal for all rows
  // Multiplies it, in memory of the stream's device, read when the kernel runs; null: nothing does.
  const double* loss_scale = nullptr;
  // d(total)/d(student), like it, and it may be the student itself; undefined: nobody asks for it.
  Tensor dstudent{};
};

}  // namespace ds::kernels
