// Losses of scores that are no classes of which one is right: of numbers that are to be met, and of
// classes that hold or not, each by itself.
#pragma once

#include <cstdint>

#include "core/device/tensor.h"

namespace ds::kernels {

enum class ValueLoss : uint8_t {
  kSquaredError,        // (score - value)^2
  kSigmoidCrossEntropy  // log(1 + e^score) - value score, natural log, of values from 0 to 1
};

// The loss of a row is the mean over its scores, as torch's mse_loss and
// binary_cross_entropy_with_logits have it for one row. Arithmetic and losses are fp32. Operands
// that do not fit throw InternalError.
struct ValueLossArgs {
  ValueLoss loss = ValueLoss::kSquaredError;
  Tensor scores;            // [N, K], fp32, bf16 or fp16; N = samples * length, K at least 1
  Tensor values;            // fp32 [samples, K]: of each row of a sample that counts
  Tensor targets;           // int32 [N]; negative = ignored row: its loss and its gradients are 0
  Tensor losses;            // fp32 [N]
  float grad_scale = 1.0F;  // d(total)/d(losses[i]), equal for all rows
  // Multiplies it, in memory of the stream's device, read when the kernel runs; null: nothing does.
  const double* loss_scale = nullptr;
  Tensor dscores{};  // d(total)/d(scores), like them; undefined: nobody asks for it
};
void value_loss(Stream& stream, const ValueLossArgs& args);

}  // namespace ds::kernels
