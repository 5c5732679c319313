// What follows from the sums of all ranks (pure): one source for every device.
#pragma once

#include <cmath>

#include "kernels/step/scalars.h"

namespace ds::kernels::detail {

// What follows for the updates. Nothing that stays changes by a step that is an error.
constexpr void settle(StepOutcome& out, const FinishRule& rule, GradientHealth health) {
  const LossScaleRule& scale = rule.loss_scale;
  const bool overflowed = health == GradientHealth::kOverflowed;
  const auto skip = [&out](Skip why) { out.skip |= static_cast<uint32_t>(why); };
  // No scale has a part in the loss, so another one does not mend it.
  const bool lost = !std::isfinite(out.sums.loss);
  if (out.found != 0 || lost || (overflowed && scale.kind == LossScaling::kNone)) skip(Skip::kBad);
  if (out.skip != 0 || !rule.is_update) return;
  if (overflowed && ends_by_overflow(out.scaler, scale)) return skip(Skip::kExhausted);
  out.scaler = after_step(out.scaler, scale, health);
  overflowed ? skip(Skip::kOverflow) : static_cast<void>(++out.updates);
}

// The weight of a batch as a share of what its mean was made over; 1 if it has none at all.
constexpr double share_of_planned(double weights, const FinishRule& rule) {
  return rule.planned_weight > 0 && weights > 0 ? weights / rule.planned_weight : 1.0;
}

// See finish_step(). `gathered` are the StepSums of each rank; `before` is the outcome so
// far; `found` is what kernels have found since then.
constexpr StepOutcome outcome_of(const double* gathered, int64_t ranks, const FinishRule& rule,
                                 const StepOutcome& before, uint32_t found) {
  StepOutcome out = before;
  out.sums = {};
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const double* of_rank = gathered + rank * kStepSums;
    out.sums.loss += of_rank[0];
    out.sums.squares += of_rank[1];
    out.sums.flags = std::max(out.sums.flags, of_rank[2]);
    out.sums.weights += of_rank[3];
    for (int64_t part = 0; part < kMostLossParts; ++part) out.sums.parts[part] += of_rank[4 + part];
  }
  const double share = share_of_planned(out.sums.weights, rule);
  out.sums.loss /= share;
  for (double& part : out.sums.parts) part /= share;
  out.loss_scale = rule.loss_scale.kind == LossScaling::kNone ? 1.0 : before.scaler.scale;
  const double shares = rule.own_gradients ? static_cast<double>(ranks) : 1.0;
  const double factor = rule.gradient_factor * out.loss_scale * share / shares;
  out.norm = std::sqrt(out.sums.squares / shares) / factor;
  out.grad_scale = static_cast<float>(clip_factor(out.norm, rule.max_norm) / factor);
  out.found |= found;
  out.skip &= ~static_cast<uint32_t>(Skip::kOverflow);
  const bool finite = std::isfinite(out.norm) && std::isfinite(out.grad_scale);
  settle(out, rule, finite ? GradientHealth::kFinite : GradientHealth::kOverflowed);
  return out;
}

// The inputs of the update that the outcome counts.
constexpr StepInputs inputs_of(const StepOutcome& outcome, const StepInputs& inputs,
                               const StepInputs& after_skip) {
  return outcome.skip == 0 && after_skip.step == outcome.updates ? after_skip : inputs;
}

}  // namespace ds::kernels::detail
