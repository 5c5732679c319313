// Update rules of the optimizers (pure): what each does to one weight, its gradient and its state.
// One source for every device: plain functions of numbers, without containers and without a
// library. Factors are what is the same for all weights of a step.
#pragma once

#include <cmath>

#include "kernels/step/scalars.h"

namespace ds::kernels {

// a * b + c, rounded once: named where it is meant, so that no compiler has a choice.
constexpr float fused(float a, float b, float c) { return std::fma(a, b, c); }

enum class WeightDecay : uint8_t {
  kDecoupled,
  kL2
};  // AdamW (arXiv 1711.05101), or added to the gradient

// The arithmetic of torch.optim.AdamW/Adam: denominator sqrt(v)/sqrt(correction2) + eps, step size
// lr/correction1, decoupled decay multiplies the weight by 1 - lr*weight_decay first. 1 - beta is
// taken before it is rounded, as the corrections are: of fp32's 0.999 it is off by 1e-5. The root
// of the second correction is divided by in fp64, once, for a division takes as long as six
// products.
struct AdamRule {
  float eps = 1e-8F;
  float weight_decay = 0;
  WeightDecay decay = WeightDecay::kDecoupled;
  double lr_scale = 1;  // of the parameter group, here and below
};
struct AdamFactors {
  float scale, keep, l2, beta2, one_minus_beta1, one_minus_beta2, inverse_root2, eps, step;
};
constexpr AdamFactors factors_of(const AdamRule& rule, const StepInputs& in,
                                 const StepOutcome& out) {
  const bool decoupled = rule.decay == WeightDecay::kDecoupled;
  const auto lr = static_cast<double>(static_cast<float>(in.lr * rule.lr_scale));
  const double keep = decoupled ? 1.0 - lr * static_cast<double>(rule.weight_decay) : 1.0;
  return {.scale = out.grad_scale,
          .keep = static_cast<float>(keep),
          .l2 = decoupled ? 0.0F : rule.weight_decay,
          .beta2 = static_cast<float>(in.beta2),
          .one_minus_beta1 = static_cast<float>(1.0 - in.beta1),
          .one_minus_beta2 = static_cast<float>(1.0 - in.beta2),
          .inverse_root2 = static_cast<float>(1.0 / std::sqrt(in.correction2)),
          .eps = rule.eps,
          .step = static_cast<float>(lr / in.correction1)};
}

// State of one weight: as many numbers as rule.states() says, the others are not looked at.
inline constexpr int kMostStates = 3;
struct RuleState {
  float values[kMostStates];
};

// Adam as above with state of any kind, and, with amsgrad, with the largest v so far in its place
// (Reddi et al., arXiv 1904.09237). State: m, v, and the largest v.
struct AdamStateRule {
  AdamRule adam{};
  bool amsgrad = false;
  constexpr int states() const { return amsgrad ? 3 : 2; }
};
struct AdamStateFactors {
  AdamFactors adam;
  bool amsgrad;
  // The same, where the number of states is known to the compiler.
  constexpr AdamStateFactors with_states(int states) const { return {adam, states == 3}; }
};
constexpr AdamStateFactors factors_of(const AdamStateRule& rule, const StepInputs& in) {
  return {.adam = factors_of(rule.adam, in, {}), .amsgrad = rule.amsgrad};
}
constexpr void update_element(const AdamStateFactors& factors, float& weight, float grad,
                              RuleState& state) {
  const AdamFactors& k = factors.adam;
  float* s = state.values;
  const float g = fused(weight, k.l2, grad);
  s[0] = fused(g - s[0], k.one_minus_beta1, s[0]);
  s[1] = fused(s[1], k.beta2, g * g * k.one_minus_beta2);
  s[2] = factors.amsgrad && s[2] > s[1] ? s[2] : s[1];
  const float denominator = fused(std::sqrt(s[2]), k.inverse_root2, k.eps);
  weight = fused(-k.step, s[0] / denominator, weight * k.keep);
}

// c = beta1 m + (1 - beta1) g; w = w (1 - lr weight_decay) - lr sign(c); m = beta2 m + (1 - beta2)
// g. sign is 0 for both zeros, as torch.sign has it: a weight that never had a gradient does not
// drift. It is 0, too, for what is no number, which stays in the momentum, where it is seen. Chen
// et al. (arXiv 2302.06675).
struct LionRule {
  double weight_decay = 0;
  double lr_scale = 1;
  static constexpr int states() { return 1; }
};
struct LionFactors {
  float beta1, rest1, beta2, rest2, keep, lr;
};
// 1 - beta is taken in fp32 as in DeepSpeed: where momentum and gradient cancel, the last bit
// decides the sign and so the whole step.
constexpr LionFactors factors_of(const LionRule& rule, const StepInputs& in) {
  const float beta1 = static_cast<float>(in.beta1), beta2 = static_cast<float>(in.beta2);
  const double lr = in.lr * rule.lr_scale;
  return {.beta1 = beta1,
          .rest1 = 1 - beta1,
          .beta2 = beta2,
          .rest2 = 1 - beta2,
          .keep = static_cast<float>(1 - lr * rule.weight_decay),
          .lr = static_cast<float>(lr)};
}
constexpr void update_element(const LionFactors& k, float& weight, float grad, RuleState& state) {
  float& momentum = state.values[0];
  const float c = momentum * k.beta1 + k.rest1 * grad;
  const float forward = c > 0 ? k.lr : 0;
  const float backward = c < 0 ? k.lr : 0;
  weight = weight * k.keep - (forward - backward);
  momentum = momentum * k.beta2 + k.rest2 * grad;
}

// d = g + weight_decay w; s += d^2; w -= lr n / (sqrt(s) + eps). n is the plain gradient, as in
// DeepSpeedCPUAdagrad, or d, as in torch.optim.Adagrad, whose rate also falls: lr / (1 + (step - 1)
// lr_decay). Duchi et al. 2011.
enum class AdagradNumerator : uint8_t { kGradient, kDecayed };
struct AdagradRule {
  float eps = 1e-10F;
  float weight_decay = 0;
  double lr_decay = 0;
  AdagradNumerator numerator = AdagradNumerator::kGradient;
  double lr_scale = 1;
  static constexpr int states() { return 1; }
};
struct AdagradFactors {
  float lr, eps, decay, decay_above;
};
constexpr AdagradFactors factors_of(const AdagradRule& rule, const StepInputs& in) {
  const double lr = in.lr * rule.lr_scale / (1 + static_cast<double>(in.step - 1) * rule.lr_decay);
  const bool above = rule.numerator == AdagradNumerator::kDecayed;
  return {.lr = static_cast<float>(lr),
          .eps = rule.eps,
          .decay = rule.weight_decay,
          .decay_above = above ? rule.weight_decay : 0.0F};
}
constexpr void update_element(const AdagradFactors& k, float& weight, float grad,
                              RuleState& state) {
  float& sum = state.values[0];
  const float decayed = grad + k.decay * weight;
  const float above = grad + k.decay_above * weight;
  sum += decayed * decayed;
  weight -= k.lr * (above / (std::sqrt(sum) + k.eps));
}

// g += weight_decay w; b = momentum b + (1 - dampening) g, or g at step 1; g = g + momentum b with
// Nesterov, else b; w -= lr g. Without momentum there is no state. As torch.optim.SGD.
struct SgdRule {
  float momentum = 0;
  float rest = 1;  // 1 - dampening
  float weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;  // g is the gradient's negative
  double lr_scale = 1;
  constexpr int states() const { return momentum != 0 ? 1 : 0; }
};
struct SgdFactors {
  float lr, momentum, rest, decay, sign;
  bool with_momentum, nesterov, first;
};
constexpr SgdFactors factors_of(const SgdRule& rule, const StepInputs& in) {
  return {.lr = static_cast<float>(in.lr * rule.lr_scale),
          .momentum = rule.momentum,
          .rest = rule.rest,
          .decay = rule.weight_decay,
          .sign = rule.maximize ? -1.0F : 1.0F,
          .with_momentum = rule.states() != 0,
          .nesterov = rule.nesterov,
          .first = in.step == 1};
}
constexpr void update_element(const SgdFactors& k, float& weight, float grad, RuleState& state) {
  float& buffer = state.values[0];
  float g = k.sign * grad + k.decay * weight;
  if (k.with_momentum) {
    buffer = k.first ? g : buffer * k.momentum + k.rest * g;
    g = k.nesterov ? g + k.momentum * buffer : buffer;
  }
  weight -= k.lr * g;
}

// g += weight_decay w; s = alpha s + (1 - alpha) g^2; a = alpha a + (1 - alpha) g where centred; d
// = sqrt(s - a^2) + eps, without a^2 elsewhere; with momentum b = momentum b + g / d and w -= lr b,
// else w -= lr g / d. As torch.optim.RMSprop; where rounding makes s less than a^2 the root is 0.
// State: s, then b and a as far as there are any.
struct RmspropRule {
  float alpha = 0.99F;
  float rest = 0.01F;  // 1 - alpha, of the fp64 numbers
  float eps = 1e-8F;
  float weight_decay = 0;
  float momentum = 0;
  bool centered = false;
  bool maximize = false;
  double lr_scale = 1;
  constexpr int states() const { return 1 + (momentum > 0 ? 1 : 0) + (centered ? 1 : 0); }
};
struct RmspropFactors {
  float lr, alpha, rest, eps, decay, momentum, sign;
  bool with_momentum, centered;
  // The same, where the number of states is known to the compiler, which else makes no vectors of
  // what only one state has.
  constexpr RmspropFactors with_states(int states) const {
    RmspropFactors known = *this;
    if (states == 1) known.with_momentum = known.centered = false;
    if (states == 3) known.with_momentum = known.centered = true;
    return known;
  }
};
constexpr RmspropFactors factors_of(const RmspropRule& rule, const StepInputs& in) {
  return {.lr = static_cast<float>(in.lr * rule.lr_scale),
          .alpha = rule.alpha,
          .rest = rule.rest,
          .eps = rule.eps,
          .decay = rule.weight_decay,
          .momentum = rule.momentum,
          .sign = rule.maximize ? -1.0F : 1.0F,
          .with_momentum = rule.momentum > 0,
          .centered = rule.centered};
}
constexpr void update_element(const RmspropFactors& k, float& weight, float grad,
                              RuleState& state) {
  float* s = state.values;
  const float g = k.sign * grad + k.decay * weight;
  s[0] = s[0] * k.alpha + k.rest * g * g;
  float variance = s[0];
  if (k.centered) {
    // A reference to one of them would keep both out of a GPU's registers.
    float average = k.with_momentum ? s[2] : s[1];
    average += (g - average) * k.rest;
    variance -= average * average;
    variance = variance > 0 ? variance : 0;
    s[1] = k.with_momentum ? s[1] : average;
    s[2] = k.with_momentum ? average : s[2];
  }
  float step = g / (std::sqrt(variance) + k.eps);
  if (k.with_momentum) step = s[1] = s[1] * k.momentum + step;
  weight -= k.lr * step;
}

// The parts of a step of the optimizers that exchange momenta in one bit (optim/onebit.h): ranks
// stop between them; none corrects a bias. m = beta1 m + (1 - beta1) g; v = beta2 v + (1 -
// beta2) g^2; w -= lr (m / (sqrt(v) + eps) + weight_decay w).
enum class OneBitPart : uint8_t { kAll, kMoments, kMomentum, kWeight };
struct OneBitRule {
  float eps = 1e-8F;
  float weight_decay = 0;
  OneBitPart part = OneBitPart::kAll;
  double lr_scale = 1;
  static constexpr int states() { return 2; }
};
struct OneBitFactors {
  float beta1, rest1, beta2, rest2, eps, decay, lr;
  bool momentum, variance, weight;  // what moves
};
constexpr OneBitFactors factors_of(const OneBitRule& rule, const StepInputs& in) {
  return {.beta1 = static_cast<float>(in.beta1),
          .rest1 = static_cast<float>(1 - in.beta1),
          .beta2 = static_cast<float>(in.beta2),
          .rest2 = static_cast<float>(1 - in.beta2),
          .eps = rule.eps,
          .decay = rule.weight_decay,
          .lr = static_cast<float>(in.lr * rule.lr_scale),
          .momentum = rule.part != OneBitPart::kWeight,
          .variance = rule.part == OneBitPart::kAll || rule.part == OneBitPart::kMoments,
          .weight = rule.part == OneBitPart::kAll || rule.part == OneBitPart::kWeight};
}
constexpr void update_element(const OneBitFactors& k, float& weight, float grad, RuleState& state) {
  float& m = state.values[0];
  float& v = state.values[1];
  m = k.momentum ? m * k.beta1 + k.rest1 * grad : m;
  v = k.variance ? v * k.beta2 + k.rest2 * grad * grad : v;
  const float moved = weight - k.lr * (m / (std::sqrt(v) + k.eps) + k.decay * weight);
  weight = k.weight ? moved : weight;
}

// The parts of a step of 0/1 Adam beside those of OneBitRule. u is what ranks exchange: a gradient
// while the variance moves, afterwards what a rank has moved the weights by since they agreed.
//   kGradient       u = g
//   kStep           m = beta1 m + (1 - beta1) u; w -= lr (m / root + weight_decay w); u = 0
//   kLocal          m = beta1 m + (1 - beta1) g; u -= lr (m / root + weight_decay w)
//   kToMomenta      u *= root, which is sqrt(v) + eps
//   kFromMomenta    m = -u / rates; u /= root
enum class ZeroOnePart : uint8_t { kGradient, kStep, kLocal, kToMomenta, kFromMomenta };
struct ZeroOneRule {
  float eps = 1e-8F;
  float weight_decay = 0;
  ZeroOnePart part = ZeroOnePart::kGradient;
  double rates = 1;  // sum of the rates since the weights agreed, that of the group among them
  double lr_scale = 1;
  static constexpr int states() { return 3; }  // m, v, u
};
struct ZeroOneFactors {
  float beta1, rest1, eps, decay, lr, rates;
  ZeroOnePart part;
};
constexpr ZeroOneFactors factors_of(const ZeroOneRule& rule, const StepInputs& in) {
  return {.beta1 = static_cast<float>(in.beta1),
          .rest1 = static_cast<float>(1 - in.beta1),
          .eps = rule.eps,
          .decay = rule.weight_decay,
          .lr = static_cast<float>(in.lr * rule.lr_scale),
          .rates = static_cast<float>(rule.rates),
          .part = rule.part};
}
constexpr void update_element(const ZeroOneFactors& k, float& weight, float grad,
                              RuleState& state) {
  float& m = state.values[0];
  float& u = state.values[2];
  const float root = std::sqrt(state.values[1]) + k.eps;
  const bool step = k.part == ZeroOnePart::kStep, local = k.part == ZeroOnePart::kLocal;
  const bool back = k.part == ZeroOnePart::kFromMomenta;
  m = step || local ? m * k.beta1 + k.rest1 * (step ? u : grad) : (back ? -u / k.rates : m);
  const float move = k.lr * (m / root + k.decay * weight);
  weight = step ? weight - move : weight;
  u = step                                ? 0.0F
      : local                             ? u - move
      : back                              ? u / root
      : k.part == ZeroOnePart::kToMomenta ? u * root
                                          : grad;
}

// Each part makes what the coefficients of 1-bit LAMB follow from; none moves a weight. State: two
// averages, and t, which receives it.
//   kDirection   t = m / (sqrt(v) + eps) + weight_decay w, of m and v
//   kRatio       t = (sqrt(v) + eps) / (sqrt(f) + eps), of the frozen v and the fresh f
//   kFresh       f = beta2 f + (1 - beta2) g^2, g = (m - beta1 t) / (1 - beta1), of m and f; t is m
//                as it was before the step
enum class OneBitLambPart : uint8_t { kDirection, kRatio, kFresh };
struct OneBitLambRule {
  float eps = 1e-8F;
  float weight_decay = 0;
  OneBitLambPart part = OneBitLambPart::kDirection;
  static constexpr int states() { return 3; }
};
struct OneBitLambFactors {
  float beta1, rest1, beta2, rest2, eps, decay;
  OneBitLambPart part;
};
constexpr OneBitLambFactors factors_of(const OneBitLambRule& rule, const StepInputs& in) {
  return {.beta1 = static_cast<float>(in.beta1),
          .rest1 = static_cast<float>(1 - in.beta1),
          .beta2 = static_cast<float>(in.beta2),
          .rest2 = static_cast<float>(1 - in.beta2),
          .eps = rule.eps,
          .decay = rule.weight_decay,
          .part = rule.part};
}
constexpr void update_element(const OneBitLambFactors& k, float& weight, float /*grad*/,
                              RuleState& state) {
  float* s = state.values;
  const bool fresh = k.part == OneBitLambPart::kFresh;
  const float root = std::sqrt(s[1]) + k.eps;
  const float g = (s[0] - k.beta1 * s[2]) / k.rest1;
  const float direction = s[0] / root + k.decay * weight;
  const float ratio = (std::sqrt(s[0]) + k.eps) / root;
  s[2] = fresh ? s[2] : (k.part == OneBitLambPart::kDirection ? direction : ratio);
  s[1] = fresh ? s[1] * k.beta2 + k.rest2 * g * g : s[1];
}

// w = a + u, with a the weights on which ranks agreed. At an exchange: a = w, u = 0.
enum class Agreement : uint8_t { kKept, kRenewed };
struct AgreedRule {
  Agreement agreement = Agreement::kKept;
  static constexpr int states() { return 2; }  // a, u
};
struct AgreedFactors {
  bool renewed;
};
constexpr AgreedFactors factors_of(const AgreedRule& rule, const StepInputs& /*in*/) {
  return {.renewed = rule.agreement == Agreement::kRenewed};
}
constexpr void update_element(const AgreedFactors& k, float& weight, float /*grad*/,
                              RuleState& state) {
  weight = state.values[0] + state.values[1];
  state.values[0] = k.renewed ? weight : state.values[0];
  state.values[1] = k.renewed ? 0.0F : state.values[1];
}

// States that are never negative, a bit for each: in 8 bits their roots are kept.
template <class Factors>
inline constexpr unsigned kRootStates = 0;
template <>
inline constexpr unsigned kRootStates<AdamStateFactors> = 0b110;
template <>
inline constexpr unsigned kRootStates<AdagradFactors> = 0b1;
template <>
inline constexpr unsigned kRootStates<RmspropFactors> = 0b1;

// Rules whose state is kept in fp32 alone.
template <class Factors>
inline constexpr bool kFp32Only = false;
template <>
inline constexpr bool kFp32Only<OneBitFactors> = true;
template <>
inline constexpr bool kFp32Only<ZeroOneFactors> = true;
template <>
inline constexpr bool kFp32Only<OneBitLambFactors> = true;
template <>
inline constexpr bool kFp32Only<AgreedFactors> = true;

}  // namespace ds::kernels
