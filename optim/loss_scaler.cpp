// The loss scale's state machine.
#include "optim/loss_scaler.h"

#include <cmath>
#include <string>

#include "core/error.h"

namespace ds {

LossScaler LossScaler::fixed(double scale) {
  if (!(scale > 0)) throw ConfigError(fmt::format("loss scale is {}, expected more than 0", scale));
  LossScaler scaler;
  scaler.state_.scale = scale;
  return scaler;
}

LossScaler LossScaler::dynamic(const DynamicScaleOptions& options) {
  if (options.window < 1) {
    throw ConfigError(fmt::format("loss_scale_window is {}, expected 1 or more", options.window));
  }
  if (options.hysteresis < 1) {
    throw ConfigError(fmt::format("hysteresis is {}, expected 1 or more", options.hysteresis));
  }
  if (!(options.init_scale > 0) || !(options.min_scale >= 0)) {
    throw ConfigError(
        fmt::format("loss scale starts at {} with minimum {}, expected positive numbers",
                    options.init_scale, options.min_scale));
  }
  LossScaler scaler;
  scaler.dynamic_ = true;
  scaler.options_ = options;
  scaler.state_.scale = options.init_scale;
  scaler.state_.hysteresis = options.hysteresis;
  return scaler;
}

LossScaler LossScaler::from_fp16(const Fp16ScaleOptions& options) {
  if (options.loss_scale != 0) return fixed(options.loss_scale);
  return dynamic({.init_scale = std::exp2(options.initial_scale_power),
                  .window = options.loss_scale_window,
                  .min_scale = options.min_loss_scale,
                  .hysteresis = options.hysteresis,
                  .consecutive_hysteresis = options.consecutive_hysteresis,
                  .at_minimum = AtMinimumScale::kThrow});
}

void LossScaler::update(GradientHealth health, std::string_view first_bad_tensor) {
  if (!dynamic_) return;
  if (health == GradientHealth::kOverflowed && is_exhausted(state_, options_)) {
    const std::string where =
        first_bad_tensor.empty() ? "the gradients" : fmt::format("gradient {}", first_bad_tensor);
    throw ValidationError(
        fmt::format("loss scale: {} overflowed at the minimum scale {}; training has diverged "
                    "(lower the learning rate, clip "
                    "gradients, or lower fp16.min_loss_scale)",
                    where, state_.scale));
  }
  state_ = after_update(state_, options_, health);
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
