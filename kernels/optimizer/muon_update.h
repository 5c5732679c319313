// Muon (Jordan 2024): what a step does to a matrix before and after its momentum is made
// orthogonal (newton_schulz.h). As DeepSpeed's muon_update has it, with Nesterov's momentum.
#pragma once

#include "kernels/step/scalars.h"

namespace ds::kernels {

// m += (1 - momentum) (g - m); x = g + momentum (m - g). Where the scalars say skip, m stays and x
// is 0.
struct MuonMomentumArgs {
  Tensor grad;      // [n] fp32, bf16 or fp16
  Tensor momentum;  // fp32 [n], updated
  Tensor x;         // [n] fp32 or bf16: receives the direction
};
void muon_momentum(Stream& stream, const MuonMomentumArgs& args, float momentum,
                   const StepScalars& scalars);

// w = w (1 - lr weight_decay) - lr size x.
struct MuonRule {
  double weight_decay = 0;
  double lr_scale = 1;
  double size = 1;  // sqrt(max(1, rows / columns))
};
struct MuonFactors {
  float keep, step;
};
constexpr MuonFactors factors_of(const MuonRule& rule, const StepInputs& in) {
  const double lr = in.lr * rule.lr_scale;
  return {.keep = static_cast<float>(1 - lr * rule.weight_decay),
          .step = static_cast<float>(lr * rule.size)};
}
struct MuonApplyArgs {
  Tensor master;     // fp32 [n], updated
  Tensor x;          // [n] fp32 or bf16
  Tensor copy = {};  // [n] bf16 or fp16: receives the rounded weight; or undefined
};
void muon_apply(Stream& stream, const MuonApplyArgs& args, const MuonRule& rule,
                const StepScalars& scalars);

// x /= sqrt(squares) + 1e-7, squares fp64 [1].
void muon_normalize(Stream& stream, const Tensor& x, const Tensor& squares);

// z = a I + b r + c s over matrices of `side` rows and columns, all of one dtype.
struct Quintic {
  float a = 0, b = 0, c = 0;
};
void muon_polynomial(Stream& stream, const Quintic& by, int64_t side, const Tensor& r,
                     const Tensor& s, const Tensor& z);

}  // namespace ds::kernels
