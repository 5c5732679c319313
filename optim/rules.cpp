// Update rules.
#include "optim/rules.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace ds {
namespace {

void check_sizes(const char* rule, size_t weight, size_t grad, size_t state) {
  DS_CHECK(weight == grad && weight == state, "{}: {} weights, {} gradients, {} state numbers",
           rule, weight, grad, state);
}

}  // namespace

void update(const LionParams& rule, std::span<float> weight, std::span<const float> grad,
            std::span<float> momentum) {
  check_sizes("lion", weight.size(), grad.size(), momentum.size());
  // 1 - beta is taken in fp32 as in the reference: where momentum and gradient cancel, the last bit
  // decides the sign and so the whole step.
  const float beta1 = static_cast<float>(rule.betas[0]), rest1 = 1 - beta1;
  const float beta2 = static_cast<float>(rule.betas[1]), rest2 = 1 - beta2;
  const float keep = static_cast<float>(1 - rule.lr * rule.weight_decay);
  const float lr = static_cast<float>(rule.lr);
  for (size_t i = 0; i < weight.size(); ++i) {
    const float c = momentum[i] * beta1 + rest1 * grad[i];
    weight[i] = weight[i] * keep - std::copysign(lr, c);
    momentum[i] = momentum[i] * beta2 + rest2 * grad[i];
  }
}

void update(const AdagradParams& rule, std::span<float> weight, std::span<const float> grad,
            std::span<float> sum) {
  check_sizes("adagrad", weight.size(), grad.size(), sum.size());
  const float lr = static_cast<float>(rule.lr), eps = static_cast<float>(rule.eps);
  const float decay = static_cast<float>(rule.weight_decay);
  for (size_t i = 0; i < weight.size(); ++i) {
    const float decayed = grad[i] + decay * weight[i];
    sum[i] += decayed * decayed;
    weight[i] -= lr * (grad[i] / (std::sqrt(sum[i]) + eps));
  }
}

void check(const SgdParams& rule) {
  if (rule.lr < 0 || rule.momentum < 0 || rule.weight_decay < 0) {
    throw ConfigError(
        fmt::format("sgd: lr, momentum and weight_decay are {}, {} and {}, expected at least 0",
                    rule.lr, rule.momentum, rule.weight_decay));
  }
  if (rule.nesterov && (rule.momentum <= 0 || rule.dampening != 0)) {
    throw ConfigError(
        fmt::format("sgd: nesterov needs a momentum above 0 and dampening 0, they are {} and {}",
                    rule.momentum, rule.dampening));
  }
}

void update(const SgdParams& rule, int64_t step, std::span<float> weight,
            std::span<const float> grad, std::span<float> buffer) {
  check(rule);
  const bool with_momentum = rule.momentum != 0;
  check_sizes("sgd", weight.size(), grad.size(), with_momentum ? buffer.size() : weight.size());
  const float lr = static_cast<float>(rule.lr), decay = static_cast<float>(rule.weight_decay);
  const float momentum = static_cast<float>(rule.momentum);
  const float rest = static_cast<float>(1 - rule.dampening);
  for (size_t i = 0; i < weight.size(); ++i) {
    float g = grad[i] + decay * weight[i];
    if (with_momentum) {
      buffer[i] = step == 1 ? g : buffer[i] * momentum + rest * g;
      g = rule.nesterov ? g + momentum * buffer[i] : buffer[i];
    }
    weight[i] -= lr * g;
  }
}

double trust_ratio(double weight_norm, double update_norm, double least, double most) {
  if (weight_norm == 0 || update_norm == 0) return 1.0;
  return std::max(std::min(weight_norm / update_norm, most), least);
}

}  // namespace ds
