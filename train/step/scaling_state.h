// What a loss scaler is at the edge between two steps, as checkpoints keep it: where it stands, and
// how many steps it has skipped so far, by which the numbers of updates lag behind those of steps.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/step/loss_scale.h"

namespace ds {

struct ScalingState {
  int64_t skipped = 0;
  LossScaleState scaler{};
  friend bool operator==(const ScalingState&, const ScalingState&) = default;
};

std::string to_text(const ScalingState& state);
// ValidationError where it is none.
ScalingState parse_scaling_state(const std::string& text);

}  // namespace ds
