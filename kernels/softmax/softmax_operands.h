// Operands of softmax cross entropy, for the front and both halves.
#pragma once

#include <optional>

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"

namespace ds::kernels {

// losses[i] = log(sum over v of e^(logits[i, v])) - logits[i, targets[i]], natural log. Over the
// logits, when asked for, d(total)/d(logits[i, v]), which is grad_scale * loss_scale times
// (softmax(logits[i])[v] - (v == targets[i])). Arithmetic and losses are fp32. Operands that do not
// fit throw InternalError.
struct SoftmaxCrossEntropyArgs {
  MatrixView logits;  // [n, V], fp32, bf16 or fp16; V at least 1
  Tensor targets;     // int32 [n]; negative = ignored row: its loss and its gradients are 0
  // fp32 [n], none below 0: losses and gradients are multiplied by them, and a row of weight 0 is
  // ignored. Undefined: all are 1.
  Tensor row_weights{};
  Tensor losses;            // fp32 [n]
  float grad_scale = 1.0F;  // d(total)/d(losses[i]), equal for all rows
  // Multiplies it, in memory of the stream's device, read when the kernel runs; null: nothing does.
  const double* loss_scale = nullptr;
  // Logits that are given were capped at c (softcap() of elementwise.h), and gradients are those of
  // what they were before, which is 1 - (logit / c)^2 times as much. 0: nobody capped them.
  float softcap = 0;
  // The dtype of the gradients, which are written over the logits: theirs, or one of 16 bits over
  // fp32, whose rows begin where those of the logits do (what is left of a row is undefined).
  // Without one, logits stay as they are.
  std::optional<DType> gradients = {};
};

// If a vocabulary is cut, each rank of a group has some columns of the logits: those of [first,
// first + columns). Ranks tell each other three numbers of each row, and no logits.
struct VocabularyPart {
  int64_t first = 0;
  int64_t vocabulary = 0;  // of all ranks
};
inline constexpr int64_t kNumbersOfPart = 3;

}  // namespace ds::kernels
