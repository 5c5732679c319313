// The arithmetic of error feedback, for both halves.
#pragma once

#include <limits>

#include "kernels/step/scalars.h"

namespace ds::kernels {

// What the scales of kept errors are multiplied by after a finished step: a level is less by it.
constexpr float scale_of_errors(const StepOutcome& outcome) {
  if (outcome.skip != 0) return std::numeric_limits<float>::infinity();
  return static_cast<float>(outcome.loss_scale / outcome.scaler.scale);
}

}  // namespace ds::kernels
