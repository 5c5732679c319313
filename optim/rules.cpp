// Update rules.
#include "optim/rules.h"

#include <algorithm>

#include "core/error.h"

namespace ds {
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

kernels::LionRule rule_of(const LionParams& params) {
  return {.weight_decay = params.weight_decay};
}

kernels::AdagradRule rule_of(const AdagradParams& params) {
  return {.eps = static_cast<float>(params.eps),
          .weight_decay = static_cast<float>(params.weight_decay)};
}

kernels::SgdRule rule_of(const SgdParams& params) {
  check(params);
  return {.momentum = static_cast<float>(params.momentum),
          .rest = static_cast<float>(1 - params.dampening),
          .weight_decay = static_cast<float>(params.weight_decay),
          .nesterov = params.nesterov};
}

double trust_ratio(double weight_norm, double update_norm, double least, double most) {
  if (weight_norm == 0 || update_norm == 0) return 1.0;
  return std::max(std::min(weight_norm / update_norm, most), least);
}

}  // namespace ds
