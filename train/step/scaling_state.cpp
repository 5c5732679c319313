#include "train/step/scaling_state.h"

#include <fmt/format.h>

#include "config/reader/value.h"
#include "train/measure/state_fields.h"

namespace ds {
std::string to_text(const ScalingState& state) {
  Value out = Value::object();
  out.set("skipped", Value::integer(state.skipped));
  out.set("scale", Value::number(state.scaler.scale));
  out.set("iteration", Value::integer(state.scaler.iteration));
  out.set("last_overflow", Value::integer(state.scaler.last_overflow));
  out.set("hysteresis", Value::integer(state.scaler.hysteresis));
  out.set("stuck", Value::integer(state.scaler.stuck));
  return to_compact_json(out);
}

ScalingState parse_scaling_state(const std::string& text) {
  const StateFields in(text, "the loss scaler of a checkpoint");
  const ScalingState state{.skipped = in.integer("skipped"),
                           .scaler = {.scale = in.number("scale"),
                                      .iteration = in.integer("iteration"),
                                      .last_overflow = in.integer("last_overflow"),
                                      .hysteresis = in.integer("hysteresis"),
                                      // Older ones do not count it.
                                      .stuck = in.has("stuck") ? in.integer("stuck") : 0}};
  if (state.skipped < 0 || state.scaler.stuck < 0 || !(state.scaler.scale > 0)) {
    in.refuse(
        fmt::format("has skipped {} steps and scales by {}", state.skipped, state.scaler.scale));
  }
  return state;
}

}  // namespace ds
