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

std::vector<LrMean> lr_means(const std::vector<LrTrial>& tried) {
  std::vector<LrTrial> sorted = tried;
  std::ranges::sort(sorted, {}, &LrTrial::lr);
  std::vector<LrMean> out;
  for (const LrTrial& trial : sorted) {
    if (out.empty() || out.back().lr != trial.lr) {
      out.push_back({.lr = trial.lr, .seeds = 1, .loss = trial.loss});
      continue;
    }
    LrMean& mean = out.back();
    ++mean.seeds;
    mean.loss += (trial.loss - mean.loss) / static_cast<double>(mean.seeds);
  }
  return out;
}

std::optional<double> best_lr(const std::vector<LrTrial>& tried) {
  const std::vector<LrMean> means = lr_means(tried);
  const LrMean* best = nullptr;
  for (const LrMean& mean : means) {
    if (!std::isfinite(mean.loss)) continue;
    const bool is_better = best == nullptr || mean.seeds > best->seeds ||
                           (mean.seeds == best->seeds && mean.loss < best->loss);
    if (is_better) best = &mean;
  }
  return best == nullptr ? std::nullopt : std::optional(best->lr);
}

namespace {

std::optional<double> next_searched_lr(const std::vector<LrTrial>& searched, double first) {
  if (searched.empty()) return first;
  if (searched.size() >= kMostLrTrials) return std::nullopt;
  const std::optional<double> best = best_lr(searched);
  if (!best) return std::ranges::min_element(searched, {}, &LrTrial::lr)->lr / kFactors.front();
  for (const double factor : kFactors) {
    for (const double way : {factor, 1 / factor}) {
      if (!has_neighbour(searched, *best, way)) return *best * way;
    }
  }
  return std::nullopt;
}

// Those of the trials of the first seed that another order of samples may rank otherwise, the best
// one first; one alone needs no other seed.
std::vector<LrTrial> closest_of(std::vector<LrTrial> searched) {
  constexpr double kClose = 0.03;
  std::erase_if(searched, [](const LrTrial& trial) { return !std::isfinite(trial.loss); });
  if (searched.empty()) return {};
  std::ranges::sort(searched, {}, &LrTrial::loss);
  const double most = searched.front().loss + kClose * std::abs(searched.front().loss);
  std::erase_if(searched, [&](const LrTrial& trial) { return trial.loss > most; });
  searched.resize(std::min(searched.size(), kMostClosestLrs));
  if (searched.size() == 1) return {};
  return searched;
}

}  // namespace

std::optional<LrTrial> next_lr_trial(const std::vector<LrTrial>& tried, double first) {
  std::vector<LrTrial> searched = tried;
  std::erase_if(searched, [](const LrTrial& trial) { return trial.seed != 0; });
  if (const std::optional<double> lr = next_searched_lr(searched, first)) return LrTrial{.lr = *lr};
  const std::vector<LrTrial> closest = closest_of(std::move(searched));
  for (int64_t seed = 1; seed < kLrTrialSeeds; ++seed) {
    for (const LrTrial& close : closest) {
      const bool is_tried = std::ranges::any_of(
          tried, [&](const LrTrial& trial) { return trial.lr == close.lr && trial.seed == seed; });
      if (!is_tried) return LrTrial{.lr = close.lr, .seed = seed};
    }
  }
  return std::nullopt;
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
