// What a learning-rate range test has found (pure): the loss over a rate that grows, after Smith,
// Cyclical Learning Rates for Training Neural Networks (2017), arXiv:1506.01186, section 3.3, and
// DeepSpeed's document of the test.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/page/metric_curves.h"
#include "launcher/report/rates/lr_trials.h"

namespace ds {

struct LrPoint {
  int64_t step = 0;
  double lr = 0;        // of the update of this step
  double loss = 0;      // that it led to: of the next step
  double smoothed = 0;  // a mean of about the last tenth of the points; not of a loss that is none
};

struct LrRange {
  std::vector<LrPoint> points;
  double lowest_loss = 0;  // smoothed; this and what follows is found before the first divergence
  double lowest_lr = 0;    // there: from it on training does not get better
  double steepest_lr = 0;  // where the smoothed loss falls fastest over the rate's logarithm
  std::optional<double> diverged_lr;  // the loss jumped, has risen by half of its fall, or is none
  bool still_falling = false;         // the lowest is at the end, so the range is too short

  std::vector<LrTrial> trials;   // runs at constant rates, made after the test; may be none
  int64_t trial_steps = 0;       // of each
  bool trials_held_out = false;  // their losses are those of held-out data

  // What the curve alone says of a rate that is kept: at most half of the largest useful one, at
  // which a model is about to diverge, and a quarter of one at which the loss has diverged.
  double curve_lr() const {
    return std::min({steepest_lr, lowest_lr / 2, diverged_lr.value_or(lowest_lr * 2) / 4});
  }
  // The best of the trials; without trials the curve's.
  double fixed_lr() const { return best_lr(trials).value_or(curve_lr()); }
  // The documents stay below the largest useful rate: half of it. Smith takes a quarter of the
  // upper bound for the lower one.
  double cycle_max_lr() const { return std::max(lowest_lr / 2, fixed_lr()); }
  double cycle_min_lr() const { return cycle_max_lr() / 4; }
};

// lr_range_of() reads the metrics of a run. It throws DataError if fewer steps than this have a
// loss, or if the first loss is not finite.
inline constexpr size_t kFewestLrPoints = 5;
LrRange lr_range_of(const MetricCurves& curves);

std::string lr_range_plot(const LrRange& range);  // an SVG
// For people: a plot in characters, what was found and what to write into a configuration.
std::string lr_range_text(const LrRange& range);
std::string lr_range_json(const LrRange& range, const std::string& run, const std::string& plot);

}  // namespace ds
