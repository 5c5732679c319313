// What follows from the sums of all ranks (pure): one source for every device.
#pragma once

#include <cmath>

#include "kernels/step/scalars.h"

namespace ds::kernels::detail {

// See finish_step(). `gathered` are the StepSums of each rank; `before` is the outcome so
// far; `found` is what kernels have found since then.
constexpr StepOutcome outcome_of(const double* gathered, int64_t ranks, double max_norm,
                                 const StepOutcome& before, uint32_t found) {
  StepOutcome out = before;
  out.sums = {};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const double* of_rank = gathered + rank * kStepSums;
    out.sums.loss += of_rank[0];
    out.sums.squares += of_rank[1];
    out.sums.flags = std::max(out.sums.flags, of_rank[2]);
  }
  out.norm = std::sqrt(out.sums.squares);
  out.found |= found;
  if (!std::isfinite(out.sums.loss) || !std::isfinite(out.norm) || out.found != 0) out.skip = 1;
  out.grad_scale = clip_factor(out.norm, max_norm);
  return out;
}

}  // namespace ds::kernels::detail
