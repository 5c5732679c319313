// The loss of one score, for both halves of kernels/value_loss.
#pragma once

#include "kernels/value_loss/value_loss.h"

namespace ds::kernels::detail {

struct ScoreLoss {
  float loss = 0;
  float slope = 0;  // d(loss)/d(score)
};

// small: e^-|score|, and log_small: log(1 + small), of kSigmoidCrossEntropy alone; each half has
// functions of its own for them.
constexpr ScoreLoss score_loss(ValueLoss kind, float score, float value, float small,
                               float log_small) {
  if (kind == ValueLoss::kSquaredError) {
    const float apart = score - value;
    return {apart * apart, 2.0F * apart};
  }
  const float sigmoid = (score >= 0 ? 1.0F : small) / (1.0F + small);
  return {(score > 0 ? score : 0.0F) - score * value + log_small, sigmoid - value};
}

}  // namespace ds::kernels::detail
