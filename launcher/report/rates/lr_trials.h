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
  int64_t seed = 0;  // added to the seed of the configuration
  double loss = 0;   // at the end; not finite where the training was lost
};

inline constexpr size_t kMostLrTrials = 14;   // of the first seed
inline constexpr size_t kMostClosestLrs = 4;  // that are tried with every seed
inline constexpr int64_t kLrTrialSeeds = 3;

// The trial to run next, without its loss; nothing where the best rate is known. The first seed
// searches, from `first` on: by factors of 4 while that helps, then of 2, then of the square root
// of 2, until both neighbours of the best rate were tried within that. The rates whose losses come
// within 3 per cent of the lowest are then tried with the other seeds, since one order of samples
// ranks neighbours by chance.
std::optional<LrTrial> next_lr_trial(const std::vector<LrTrial>& tried, double first);

struct LrMean {
  double lr = 0;
  int64_t seeds = 0;  // that it was tried with
  double loss = 0;    // in the mean over them; not finite where a training was lost
};

// What was found of each rate, ascending.
std::vector<LrMean> lr_means(const std::vector<LrTrial>& tried);

// The rate with the lowest mean loss among those that were tried with the most seeds, of equal ones
// the smallest; nothing where every one was lost.
std::optional<double> best_lr(const std::vector<LrTrial>& tried);

// How far a trial of `steps` steps came: the loss of held-out data after the last of them, or the
// mean loss of the last tenth of them, which batches make less noisy than the last loss. NaN where
// there is no finite one.
double trial_loss(const MetricCurves& curves, int64_t steps, bool held_out);

}  // namespace ds
