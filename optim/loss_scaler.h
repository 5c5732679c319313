// Loss scaling for fp16 (pure): which factor the loss is multiplied with, as a state machine that
// is told after every update whether the gradients overflowed. Dynamic scales halve on overflow,
// after as many overflows as the hysteresis allows, and double after a window of clean updates. It
// sees no tensor and skips no update itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/step/loss_scale.h"

namespace ds {

// The fp16 section's numbers. loss_scale 0 means dynamic, starting at 2^initial_scale_power.
struct Fp16ScaleOptions {
  double loss_scale = 0;
  double initial_scale_power = 16;
  int64_t loss_scale_window = 1000;
  int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1;
};

// Whether fp32 holds the scale and its reciprocal, both with all of their digits: gradients are
// multiplied by the one and by the other.
bool is_usable_scale(double scale);

// ConfigError for a window or hysteresis below 1, for a fixed or a least scale that is not usable,
// and for a first one that is not positive and finite: one too large for fp32 overflows until it
// has come down.
LossScaleRule loss_scale_rule(const Fp16ScaleOptions& options);
LossScaleRule dynamic_scale_rule(const DynamicScaleOptions& options);

// Why a run ends where `what` overflowed at the smallest scale.
std::string exhausted_text(std::string_view what, double scale);
// The same for gradients of a step that overflowed by that rule at that scale.
std::string exhausted_text(const LossScaleRule& rule, double scale);

class LossScaler {
 public:
  static LossScaler fixed(double scale);
  // Both throw ConfigError as loss_scale_rule() does.
  static LossScaler dynamic(const DynamicScaleOptions& options);
  static LossScaler from_fp16(const Fp16ScaleOptions& options);

  double scale() const { return state_.scale; }
  bool is_dynamic() const { return rule_.kind == LossScaling::kDynamic; }

  // Takes note of one update. With kThrow, an overflow at the smallest scale throws ValidationError
  // that names `first_bad_tensor` where the caller knows it; the state is then unchanged.
  void update(GradientHealth health, std::string_view first_bad_tensor = {});

  const LossScaleState& state() const { return state_; }
  void restore(const LossScaleState& state) { state_ = state; }

 private:
  explicit LossScaler(const LossScaleRule& rule) : rule_(rule), state_(first_state(rule)) {}

  LossScaleRule rule_;
  LossScaleState state_;
};

// The non-ZeRO wrappers of fp16 optimizers: no hysteresis, and the scale stays at its minimum.
// Without options they start at 2^32 with minimum 1 (fused) or 2^16 with minimum 0.25 (unfused),
// window 1000.
enum class PlainScaleProfile { kFused, kUnfused };
DynamicScaleOptions plain_scale_defaults(PlainScaleProfile profile);

}  // namespace ds
