// Which rates short runs try after a learning-rate range test, and which of them is the best
// (pure). A range test has one step at each rate; how far a constant rate comes is known after a
// run at that rate only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/report/page/metric_curves.h"

namespace ds {

struct LrTrial {
  double lr = 0;
  double loss = 0;  // at the end; not finite where the training was lost
};

inline constexpr size_t kMostLrTrials = 14;

// The rate to try next, nothing where the best one is known: its neighbours that were tried are
// not further away than the square root of 2 on either side. The first rate is `first`; the search
// goes by factors of 4 while that helps, then of 2, then of the square root of 2.
std::optional<double> next_trial_lr(const std::vector<LrTrial>& tried, double first);

// The trial with the lowest loss, of equal ones that with the smallest rate; nullptr where every
// one was lost.
const LrTrial* best_lr_trial(const std::vector<LrTrial>& tried);

// The rate that trials speak for: of neighbours that train alike, with losses within one per cent
// of the lowest, the geometric mean, since chance alone ranks them. Nothing where every one was
// lost.
std::optional<double> best_lr(std::vector<LrTrial> tried);

// How far a trial of `steps` steps came: the loss of held-out data after the last of them, or the
// mean loss of the last tenth of them, which batches make less noisy than the last loss. NaN where
// there is no finite one.
double trial_loss(const MetricCurves& curves, int64_t steps, bool held_out);

}  // namespace ds
