// The loss scale's state machine.
#include "optim/loss_scaler.h"

#include <cmath>
#include <string>

#include "core/status/error.h"

namespace ds {

namespace {

constexpr double kLeastScale = 0x1p-126, kLargestScale = 0x1p126;

LossScaleRule fixed_rule(double scale) {
  if (!(scale > 0)) throw ConfigError(fmt::format("loss scale is {}, expected more than 0", scale));
  if (!is_usable_scale(scale)) {
    throw ConfigError(
        fmt::format("loss scale is {}, expected {} to {}, which fp32 can hold and divide by", scale,
                    kLeastScale, kLargestScale));
  }
  return {.kind = LossScaling::kFixed, .options = {.init_scale = scale, .hysteresis = 1}};
}

}  // namespace

LossScaleRule dynamic_scale_rule(const DynamicScaleOptions& options) {
  if (options.window < 1) {
    throw ConfigError(fmt::format("loss_scale_window is {}, expected 1 or more", options.window));
  }
  if (options.hysteresis < 1) {
    throw ConfigError(fmt::format("hysteresis is {}, expected 1 or more", options.hysteresis));
  }
  if (!(options.init_scale > 0) || !std::isfinite(options.init_scale) ||
      !is_usable_scale(options.min_scale)) {
    throw ConfigError(fmt::format(
        "loss scale starts at {} with minimum {}, expected a positive number and a minimum from {} "
        "to {}, which fp32 can hold and divide by",
        options.init_scale, options.min_scale, kLeastScale, kLargestScale));
  }
  return {.kind = LossScaling::kDynamic, .options = options};
}

bool is_usable_scale(double scale) { return scale >= kLeastScale && scale <= kLargestScale; }

LossScaleRule loss_scale_rule(const Fp16ScaleOptions& options) {
  if (options.loss_scale != 0) return fixed_rule(options.loss_scale);
  return dynamic_scale_rule({.init_scale = std::exp2(options.initial_scale_power),
                             .window = options.loss_scale_window,
                             .min_scale = options.min_loss_scale,
                             .hysteresis = options.hysteresis,
                             .consecutive_hysteresis = options.consecutive_hysteresis,
                             .at_minimum = AtMinimumScale::kThrow});
}

std::string exhausted_text(std::string_view what, double scale) {
  return fmt::format(
      "loss scale: {} overflowed at the minimum scale {}; training has diverged (lower the "
      "learning rate, clip gradients, or lower fp16.min_loss_scale)",
      what, scale);
}

std::string exhausted_text(const LossScaleRule& rule, double scale) {
  if (rule.kind != LossScaling::kFixed) return exhausted_text("the gradients", scale);
  return fmt::format(
      "loss scale: the gradients overflowed in {} steps in a row at the scale {}, which is fixed; "
      "either it is too large (lower it, or let it follow the gradients: fp16.loss_scale 0), or "
      "training has diverged (lower the learning rate, clip gradients)",
      kMostStuck, scale);
}

LossScaler LossScaler::fixed(double scale) { return LossScaler(fixed_rule(scale)); }

LossScaler LossScaler::dynamic(const DynamicScaleOptions& options) {
  return LossScaler(dynamic_scale_rule(options));
}

LossScaler LossScaler::from_fp16(const Fp16ScaleOptions& options) {
  return LossScaler(loss_scale_rule(options));
}

void LossScaler::update(GradientHealth health, std::string_view first_bad_tensor) {
  if (!is_dynamic()) return;
  if (health == GradientHealth::kOverflowed && is_exhausted(state_, rule_.options)) {
    throw ValidationError(exhausted_text(first_bad_tensor.empty()
                                             ? std::string("the gradients")
                                             : fmt::format("gradient {}", first_bad_tensor),
                                         state_.scale));
  }
  state_ = after_update(state_, rule_.options, health);
}

DynamicScaleOptions plain_scale_defaults(PlainScaleProfile profile) {
  const bool fused = profile == PlainScaleProfile::kFused;
  return {.init_scale = fused ? 0x1p32 : 0x1p16,
          .window = 1000,
          .min_scale = fused ? 1.0 : 0.25,
          .hysteresis = 1,
          .consecutive_hysteresis = false,
          .at_minimum = AtMinimumScale::kStay};
}

}  // namespace ds
