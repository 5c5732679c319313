#include "launcher/report/rates/lr_trials.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

namespace ds {
namespace {

constexpr std::array<double, 3> kFactors = {4, 2, std::numbers::sqrt2};
constexpr double kRounding = 1.001;  // of rates that were made by different factors

// Whether a rate was tried above (or, for a factor below 1, under) `lr` and within the factor.
bool has_neighbour(const std::vector<LrTrial>& tried, double lr, double factor) {
  return std::ranges::any_of(tried, [&](const LrTrial& trial) {
    const double ratio = factor > 1 ? trial.lr / lr : lr / trial.lr;
    return ratio > kRounding && ratio < std::max(factor, 1 / factor) * kRounding;
  });
}

}  // namespace

std::optional<double> next_trial_lr(const std::vector<LrTrial>& tried, double first) {
  if (tried.empty()) return first;
  if (tried.size() >= kMostLrTrials) return std::nullopt;
  const LrTrial* const best = best_lr_trial(tried);
  if (best == nullptr) {
    return std::ranges::min_element(tried, {}, &LrTrial::lr)->lr / kFactors.front();
  }
  for (const double factor : kFactors) {
    for (const double way : {factor, 1 / factor}) {
      if (!has_neighbour(tried, best->lr, way)) return best->lr * way;
    }
  }
  return std::nullopt;
}

const LrTrial* best_lr_trial(const std::vector<LrTrial>& tried) {
  const LrTrial* best = nullptr;
  for (const LrTrial& trial : tried) {
    if (!std::isfinite(trial.loss)) continue;
    const bool is_better = best == nullptr || trial.loss < best->loss ||
                           (trial.loss == best->loss && trial.lr < best->lr);
    if (is_better) best = &trial;
  }
  return best;
}

std::optional<double> best_lr(std::vector<LrTrial> tried) {
  const LrTrial* const best = best_lr_trial(tried);
  if (best == nullptr) return std::nullopt;
  const LrTrial lowest = *best;
  constexpr double kAlike = 0.01;
  const auto trains_alike = [&](const LrTrial& trial) {
    return trial.loss <= lowest.loss + kAlike * std::abs(lowest.loss);
  };
  std::ranges::sort(tried, {}, &LrTrial::lr);
  const auto at = std::ranges::find(tried, lowest.lr, &LrTrial::lr);
  const auto above = std::find_if_not(at, tried.end(), trains_alike);
  const auto below = std::find_if_not(std::make_reverse_iterator(at), tried.rend(), trains_alike);
  if (above - below.base() == 1) return lowest.lr;
  double logs = 0;
  for (auto trial = below.base(); trial != above; ++trial) logs += std::log(trial->lr);
  return std::exp(logs / static_cast<double>(above - below.base()));
}

namespace {

// Returns the mean of the last `wanted` steps of `steps`, at least of one; NaN if one is missing.
double mean_of_last(const std::vector<PlotPoint>& losses, int64_t wanted, int64_t steps) {
  const int64_t count = std::max<int64_t>(1, wanted);
  double sum = 0;
  int64_t found = 0;
  for (const PlotPoint& point : losses) {
    const int64_t step = std::llround(point.x);
    if (step <= steps - count || step > steps) continue;
    sum += point.y;
    ++found;
  }
  return found == count ? sum / static_cast<double>(count)
                        : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

double trial_loss(const MetricCurves& curves, int64_t steps, bool held_out) {
  const auto losses = curves.find(held_out ? "validation_loss" : "loss");
  if (losses == curves.end()) return std::numeric_limits<double>::quiet_NaN();
  return mean_of_last(losses->second, held_out ? 1 : steps / 10, steps);
}

}  // namespace ds
