// The transition of a loss scale for fp16 (pure): plain numbers, so that it can be made wherever
// the verdict over the gradients is, on the host or on a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace ds {

// What an overflow at the smallest scale means: training cannot go on, or the scale simply stays.
enum class AtMinimumScale { kThrow, kStay };

struct DynamicScaleOptions {
  double init_scale = 65536;
  int64_t window = 1000;  // clean updates between two doublings
  double min_scale = 1;
  double max_scale = std::numeric_limits<double>::infinity();
  int64_t hysteresis = 2;               // overflows until the scale halves; 1 halves at once
  bool consecutive_hysteresis = false;  // every clean update restores the hysteresis
  AtMinimumScale at_minimum = AtMinimumScale::kThrow;
};

// All that a checkpoint has to keep.
struct LossScaleState {
  double scale = 1;
  int64_t iteration = 0;
  int64_t last_overflow = -1;  // iteration of the last overflow
  int64_t hysteresis = 1;      // overflows left until the scale halves
  int64_t stuck = 0;           // overflows in a row, up to here, that left the scale no way down
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

enum class GradientHealth { kFinite, kOverflowed };

// Whether losses are scaled before they are differentiated, so that small gradients are not lost in
// fp16: not at all, by a number that stays, or by one that follows what gradients can bear.
enum class LossScaling : uint8_t { kNone, kFixed, kDynamic };

struct LossScaleRule {
  LossScaling kind = LossScaling::kNone;
  DynamicScaleOptions options{};  // kFixed: init_scale is the scale
};

constexpr LossScaleState first_state(const LossScaleRule& rule) {
  if (rule.kind == LossScaling::kNone) return {};
  return {.scale = rule.options.init_scale, .hysteresis = rule.options.hysteresis};
}

// Whether an overflow in this state ends training: the scale is as small as it may be.
constexpr bool is_exhausted(const LossScaleState& state, const DynamicScaleOptions& options) {
  const bool forgiven = options.hysteresis != 1 && state.hysteresis != 1;
  return !forgiven && state.scale == options.min_scale &&
         options.at_minimum == AtMinimumScale::kThrow;
}

// Steps in a row that overflow at a scale which has no way down, of which the last ends training.
// Nothing changes between them but the batch, so one that goes well may follow a bad batch or two;
// after a third nobody should wait for it.
inline constexpr int64_t kMostStuck = 3;

// Whether an overflow in this state leaves the scale where it is for good: it is fixed, or as small
// as it may be and made to stay there.
constexpr bool has_no_way_down(const LossScaleState& state, const LossScaleRule& rule) {
  return rule.kind == LossScaling::kFixed ||
         (rule.kind == LossScaling::kDynamic && state.scale <= rule.options.min_scale &&
          rule.options.at_minimum == AtMinimumScale::kStay);
}

// Whether an overflow in this state ends training.
constexpr bool ends_by_overflow(const LossScaleState& state, const LossScaleRule& rule) {
  if (rule.kind == LossScaling::kDynamic && is_exhausted(state, rule.options)) return true;
  return has_no_way_down(state, rule) && state.stuck + 1 >= kMostStuck;
}

// The state after one update. One that is exhausted does not change by an overflow.
constexpr LossScaleState after_update(LossScaleState state, const DynamicScaleOptions& options,
                                      GradientHealth health) {
  constexpr double kScaleFactor = 2.0;
  if (health == GradientHealth::kOverflowed) {
    if (is_exhausted(state, options)) return state;
    if (options.hysteresis != 1 && state.hysteresis != 1) {
      --state.hysteresis;
    } else {
      state.scale = std::max(state.scale / kScaleFactor, options.min_scale);
    }
    state.last_overflow = state.iteration;
  } else {
    if (options.consecutive_hysteresis) state.hysteresis = options.hysteresis;
    // The update right after an overflow does not count towards the window.
    const int64_t stable = state.iteration - state.last_overflow - 1;
    if (stable > 0 && stable % options.window == 0) {
      state.hysteresis = options.hysteresis;
      state.scale = std::min(state.scale * kScaleFactor, options.max_scale);
    }
  }
  ++state.iteration;
  return state;
}

// The state after one step by any rule, which counts what has no way down.
constexpr LossScaleState after_step(const LossScaleState& state, const LossScaleRule& rule,
                                    GradientHealth health) {
  const bool stuck = health == GradientHealth::kOverflowed && has_no_way_down(state, rule);
  LossScaleState out =
      rule.kind == LossScaling::kDynamic ? after_update(state, rule.options, health) : state;
  out.stuck = stuck ? state.stuck + 1 : 0;
  return out;
}

}  // namespace ds
