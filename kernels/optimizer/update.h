// Optimizer updates in one pass over a shard: read gradient and state once, write state, master
// weight and its low-precision copy once.
#pragma once

#include "kernels/optimizer/update_rules.h"

namespace ds::kernels {

struct AdamArgs {
  Tensor master;     // fp32 [n], updated
  Tensor grad = {};  // [n], fp32, bf16 or fp16
  // [n], updated; both fp32 or both bf16. As bf16, rounded to nearest, they lose changes of less
  // than about 1/256, which asks for a beta2 of 0.99 or less.
  Tensor exp_avg;
  Tensor exp_avg_sq;
  Tensor copy = {};  // [n] fp32, bf16 or fp16: receives the rounded weight; or undefined
  AdamRule rule = {};
};
// One step by `scalars`; nothing where they say skip.
void adam_update(Stream& stream, const AdamArgs& args, const StepScalars& scalars);

}  // namespace ds::kernels
