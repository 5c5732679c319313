// Update rules of the optimizers (pure): what each does to one weight, its gradient and its state.
// One source for every device: plain functions of numbers, without containers and without a
// library. Factors are what is the same for all weights of a step.
#pragma once

#include <cmath>

#include "kernels/step/scalars.h"

namespace ds::kernels {

enum class WeightDecay : uint8_t {
  kDecoupled,
  kL2
};  // AdamW (arXiv 1711.05101), or added to the gradient

// The arithmetic of torch.optim.AdamW/Adam: denominator sqrt(v)/sqrt(correction2) + eps, step size
// lr/correction1, decoupled decay multiplies the weight by 1 - lr*weight_decay first.
struct AdamRule {
  float eps = 1e-8F;
  float weight_decay = 0;
  WeightDecay decay = WeightDecay::kDecoupled;
};
struct AdamFactors {
  float scale, keep, l2, beta2, one_minus_beta1, one_minus_beta2, root2, eps, step;
};
constexpr AdamFactors factors_of(const AdamRule& rule, const StepInputs& in,
                                 const StepOutcome& out) {
  const bool decoupled = rule.decay == WeightDecay::kDecoupled;
  const auto lr = static_cast<double>(static_cast<float>(in.lr));
  const float beta1 = static_cast<float>(in.beta1), beta2 = static_cast<float>(in.beta2);
  const double keep = decoupled ? 1.0 - lr * static_cast<double>(rule.weight_decay) : 1.0;
  return {.scale = out.grad_scale,
          .keep = static_cast<float>(keep),
          .l2 = decoupled ? 0.0F : rule.weight_decay,
          .beta2 = beta2,
          .one_minus_beta1 = static_cast<float>(1.0 - static_cast<double>(beta1)),
          .one_minus_beta2 = static_cast<float>(1.0 - static_cast<double>(beta2)),
          .root2 = static_cast<float>(std::sqrt(in.correction2)),
          .eps = rule.eps,
          .step = static_cast<float>(lr / in.correction1)};
}

// c = beta1 m + (1 - beta1) g; w = w (1 - lr weight_decay) - lr sign(c); m = beta2 m + (1 - beta2)
// g. sign is the sign bit of c: zero counts as +1. Chen et al. (arXiv 2302.06675).
struct LionRule {
  double weight_decay = 0;
  static constexpr bool has_state() { return true; }
};
struct LionFactors {
  float beta1, rest1, beta2, rest2, keep, lr;
};
// 1 - beta is taken in fp32 as in DeepSpeed: where momentum and gradient cancel, the last bit
// decides the sign and so the whole step.
constexpr LionFactors factors_of(const LionRule& rule, const StepInputs& in) {
  const float beta1 = static_cast<float>(in.beta1), beta2 = static_cast<float>(in.beta2);
  return {.beta1 = beta1,
          .rest1 = 1 - beta1,
          .beta2 = beta2,
          .rest2 = 1 - beta2,
          .keep = static_cast<float>(1 - in.lr * rule.weight_decay),
          .lr = static_cast<float>(in.lr)};
}
constexpr void update_element(const LionFactors& k, float& weight, float grad, float& momentum) {
  const float c = momentum * k.beta1 + k.rest1 * grad;
  weight = weight * k.keep - std::copysign(k.lr, c);
  momentum = momentum * k.beta2 + k.rest2 * grad;
}

// s += (g + weight_decay w)^2; w -= lr g / (sqrt(s) + eps): the decay enters the sum only, the
// numerator is the plain gradient, as in DeepSpeedCPUAdagrad. Duchi et al. 2011.
struct AdagradRule {
  float eps = 1e-10F;
  float weight_decay = 0;
  static constexpr bool has_state() { return true; }
};
struct AdagradFactors {
  float lr, eps, decay;
};
constexpr AdagradFactors factors_of(const AdagradRule& rule, const StepInputs& in) {
  return {.lr = static_cast<float>(in.lr), .eps = rule.eps, .decay = rule.weight_decay};
}
constexpr void update_element(const AdagradFactors& k, float& weight, float grad, float& sum) {
  const float decayed = grad + k.decay * weight;
  sum += decayed * decayed;
  weight -= k.lr * (grad / (std::sqrt(sum) + k.eps));
}

// g += weight_decay w; b = momentum b + (1 - dampening) g, or g at step 1; g = g + momentum b with
// Nesterov, else b; w -= lr g. Without momentum there is no state. As torch.optim.SGD.
struct SgdRule {
  float momentum = 0;
  float rest = 1;  // 1 - dampening
  float weight_decay = 0;
  bool nesterov = false;
  constexpr bool has_state() const { return momentum != 0; }
};
struct SgdFactors {
  float lr, momentum, rest, decay;
  bool with_momentum, nesterov, first;
};
constexpr SgdFactors factors_of(const SgdRule& rule, const StepInputs& in) {
  return {.lr = static_cast<float>(in.lr),
          .momentum = rule.momentum,
          .rest = rule.rest,
          .decay = rule.weight_decay,
          .with_momentum = rule.has_state(),
          .nesterov = rule.nesterov,
          .first = in.step == 1};
}
constexpr void update_element(const SgdFactors& k, float& weight, float grad, float& buffer) {
  float g = grad + k.decay * weight;
  if (k.with_momentum) {
    buffer = k.first ? g : buffer * k.momentum + k.rest * g;
    g = k.nesterov ? g + k.momentum * buffer : buffer;
  }
  weight -= k.lr * g;
}

}  // namespace ds::kernels
