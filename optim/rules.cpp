// Update rules.
#include "optim/rules.h"

#include "core/status/error.h"

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

kernels::LionRule rule_of(const LionParams& /*params*/, const GroupOptions& group) {
  return {.weight_decay = group.weight_decay, .lr_scale = group.lr_scale};
}

kernels::AdagradRule rule_of(const AdagradParams& params, const GroupOptions& group) {
  const bool as_torch = params.lr_decay != 0 || params.initial_accumulator_value != 0;
  return {.eps = static_cast<float>(params.eps),
          .weight_decay = static_cast<float>(group.weight_decay),
          .lr_decay = params.lr_decay,
          .numerator =
              as_torch ? kernels::AdagradNumerator::kDecayed : kernels::AdagradNumerator::kGradient,
          .lr_scale = group.lr_scale};
}

kernels::SgdRule rule_of(const SgdParams& params, const GroupOptions& group) {
  check(params);
  return {.momentum = static_cast<float>(params.momentum),
          .rest = static_cast<float>(1 - params.dampening),
          .weight_decay = static_cast<float>(group.weight_decay),
          .nesterov = params.nesterov,
          .maximize = params.maximize,
          .lr_scale = group.lr_scale};
}

kernels::RmspropRule rule_of(const RmspropParams& params, const GroupOptions& group) {
  return {.alpha = static_cast<float>(params.alpha),
          .rest = static_cast<float>(1 - params.alpha),
          .eps = static_cast<float>(params.eps),
          .weight_decay = static_cast<float>(group.weight_decay),
          .momentum = static_cast<float>(params.momentum),
          .centered = params.centered,
          .maximize = params.maximize,
          .lr_scale = group.lr_scale};
}

}  // namespace ds
