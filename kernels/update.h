// Optimizer updates in one pass over a shard: read gradient and state once, write state, master
// weight and its low-precision copy once.
#pragma once

#include "core/tensor.h"

namespace ds::kernels {

enum class WeightDecay : uint8_t {
  kDecoupled,
  kL2
};  // AdamW (arXiv 1711.05101), or added to the gradient

struct AdamArgs {
  Tensor master;            // fp32 [n], updated
  Tensor grad = {};         // [n], fp32, bf16 or fp16
  Tensor exp_avg;           // fp32 [n], updated
  Tensor exp_avg_sq;        // fp32 [n], updated
  Tensor copy = {};         // [n] bf16 or fp16: receives the rounded weight; or undefined
  float grad_scale = 1.0F;  // multiplies the gradient: unscale and clip in one factor
  float lr = 0, beta1 = 0.9F, beta2 = 0.999F, eps = 1e-8F, weight_decay = 0;
  WeightDecay decay = WeightDecay::kDecoupled;
  double bias_correction1 = 1;  // 1 - beta1^t
  double bias_correction2 = 1;  // 1 - beta2^t
};
// The arithmetic of torch.optim.AdamW/Adam: denominator sqrt(v)/sqrt(bias_correction2) + eps, step
// size lr/bias_correction1, decoupled decay multiplies the weight by 1 - lr*weight_decay first.
void adam_update(Stream& stream, const AdamArgs& args);

}  // namespace ds::kernels
