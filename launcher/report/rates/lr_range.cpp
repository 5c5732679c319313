#include "launcher/report/rates/lr_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/text/json_text.h"

namespace ds {
namespace {

constexpr double kNoises = 6;

// Means with weights that fall by the factor 1 - 1/n from point to point, as if there had been as
// many before the first.
void smooth(std::vector<LrPoint>& points) {
  const double keep = 1 - 1 / std::max(1.0, static_cast<double>(points.size()) / 10);
  double sum = 0;
  double weight = 0;
  for (LrPoint& point : points) {
    if (std::isfinite(point.loss)) {
      sum = keep * sum + (1 - keep) * point.loss;
      weight = keep * weight + (1 - keep);
    }
    point.smoothed = std::isfinite(point.loss) ? sum / weight : point.loss;
  }
}

// The median of what the loss changes by from step to step: how much batches differ, which a few
// jumps do not change.
double noise_of(const std::vector<LrPoint>& points) {
  std::vector<double> changes;
  for (size_t i = 1; i < points.size(); ++i) {
    const double change = std::abs(points[i].loss - points[i - 1].loss);
    if (std::isfinite(change)) changes.push_back(change);
  }
  if (changes.empty()) return 0;
  const auto middle = changes.begin() + narrow<std::ptrdiff_t>(changes.size() / 2);
  std::nth_element(changes.begin(), middle, changes.end());
  return *middle;
}

// Index behind the last point before the first divergence: a loss that is not finite, or two in a
// row that have risen above the lowest smoothed one before by more than batches differ and by half
// of what the loss had fallen. Losses after it count for nothing: a model that comes back from a
// jump, at a rate that grows, has been trained by what came before.
size_t end_of_training(const std::vector<LrPoint>& points) {
  const double first = points.front().smoothed;
  const double noise = noise_of(points);
  double lowest = first;
  bool is_risen = false;  // the point before
  for (size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].loss)) return i;
    const double rise = points[i].loss - lowest;
    const bool risen = rise > std::max(kNoises * noise, (first - lowest) / 2) && rise > 0;
    if (risen && is_risen) return i - 1;
    is_risen = risen;
    if (!risen) lowest = std::min(lowest, points[i].smoothed);
  }
  return points.size();
}

double steepest_of(const std::vector<LrPoint>& points, size_t end) {
  const size_t reach = std::max<size_t>(1, end / 20);
  double best = 0;
  double lr = points.front().lr;
  for (size_t i = reach; i + reach < end; ++i) {
    const LrPoint& before = points[i - reach];
    const LrPoint& behind = points[i + reach];
    if (behind.lr <= before.lr) continue;  // one stair
    const double fall = (before.smoothed - behind.smoothed) / std::log(behind.lr / before.lr);
    if (fall <= best) continue;
    best = fall;
    lr = points[i].lr;
  }
  return lr;
}

}  // namespace

LrRange lr_range_of(const MetricCurves& curves) {
  LrRange range;
  const auto losses = curves.find("loss");
  const auto rates = curves.find("lr");
  if (losses != curves.end() && rates != curves.end()) {
    const size_t count = std::min(losses->second.size() - 1, rates->second.size());
    for (size_t i = 0; i < count; ++i) {
      range.points.push_back({.step = std::llround(rates->second[i].x),
                              .lr = rates->second[i].y,
                              .loss = losses->second[i + 1].y});
    }
  }
  if (range.points.size() < kFewestLrPoints) {
    throw DataError(
        fmt::format("learning-rate range test: {} steps have a loss, expected {} or more",
                    range.points.size(), kFewestLrPoints));
  }
  smooth(range.points);
  const size_t end = end_of_training(range.points);
  if (end < range.points.size()) range.diverged_lr = range.points[end].lr;
  if (end == 0) {
    throw DataError(
        fmt::format("learning-rate range test: the first loss, at a rate of {:.3g}, is not finite; "
                    "begin with a smaller --min-lr",
                    range.points.front().lr));
  }
  const auto lowest = std::min_element(
      range.points.begin(), range.points.begin() + narrow<std::ptrdiff_t>(end),
      [](const LrPoint& one, const LrPoint& other) { return one.smoothed < other.smoothed; });
  range.lowest_loss = lowest->smoothed;
  range.lowest_lr = lowest->lr;
  range.still_falling = lowest + 1 == range.points.end();
  range.steepest_lr = steepest_of(range.points, end);
  return range;
}

std::string lr_range_plot(const LrRange& range) {
  PlotCurve loss{"loss", kBlue, {}};
  PlotCurve smoothed{"smoothed", kRed, {}};
  for (const LrPoint& point : range.points) {
    loss.points.push_back({point.lr, point.loss});
    smoothed.points.push_back({point.lr, point.smoothed});
  }
  return line_plot({.title = "Learning-rate range test",
                    .x_name = "learning rate",
                    .curves = {loss, smoothed},
                    .x_ticks = PlotTicks::kLog});
}

namespace {

constexpr size_t kColumns = 60;
constexpr size_t kLines = 12;

// Returns the cell, of so many, in which a share of the whole lies. Shares below 0 and NaN get the
// first cell, those above 1 the last.
size_t cell_at(double share, size_t cells) {
  const double at = share * static_cast<double>(cells - 1);
  return at > 0 ? static_cast<size_t>(std::min(at, static_cast<double>(cells - 1))) : 0;
}

// The smoothed loss over the rate, linear in both.
std::string drawn(const LrRange& range) {
  const double first = range.points.front().lr;
  const double span = std::max(range.points.back().lr - first, 1e-300);
  double high = range.lowest_loss;
  for (const LrPoint& point : range.points) {
    if (std::isfinite(point.smoothed)) high = std::max(high, point.smoothed);
  }
  const double height = std::max(high - range.lowest_loss, 1e-12);
  std::array<std::string, kLines> lines;
  lines.fill(std::string(kColumns, ' '));
  for (const LrPoint& point : range.points) {
    if (!std::isfinite(point.smoothed)) continue;
    const size_t column = cell_at((point.lr - first) / span, kColumns);
    lines[cell_at((high - point.smoothed) / height, kLines)][column] = '*';
  }
  std::string out;
  for (size_t i = 0; i < kLines; ++i) {
    const bool has_label = i == 0 || i + 1 == kLines;
    const std::string label = has_label ? fmt::format("{:>9.4g}", i == 0 ? high : range.lowest_loss)
                                        : std::string(9, ' ');
    out += fmt::format("{} |{}\n", label, lines[i].substr(0, lines[i].find_last_not_of(' ') + 1));
  }
  out += fmt::format("{:>9} +{}\n{:<11}{:<{}}{:.3g}\n", "loss", std::string(kColumns, '-'), "",
                     fmt::format("{:.3g}", first), kColumns - 8, range.points.back().lr);
  return out;
}

// A line for each rate, the smallest first.
std::string trial_lines(const LrRange& range) {
  const std::optional<double> best = best_lr(range.trials);
  std::string out =
      fmt::format("trials          {} steps at one rate, {} at the end\n", range.trial_steps,
                  range.trials_held_out ? "loss of held-out data" : "loss");
  for (const LrMean& mean : lr_means(range.trials)) {
    out += fmt::format("{:>15.3g} {}{}{}\n", mean.lr,
                       std::isfinite(mean.loss) ? fmt::format("{:.4g}", mean.loss) : "lost",
                       mean.seeds > 1 ? fmt::format(", mean of {} seeds", mean.seeds) : "",
                       mean.lr == best ? ", the best" : "");
  }
  return out;
}

}  // namespace

std::string lr_range_text(const LrRange& range) {
  std::string out = drawn(range);
  out += fmt::format("lowest loss     {:.4g} (smoothed) at a rate of {:.3g}\n", range.lowest_loss,
                     range.lowest_lr);
  out += fmt::format("falls fastest   at {:.3g}\n", range.steepest_lr);
  if (range.diverged_lr) {
    out += fmt::format("diverges        at {:.3g}\n", *range.diverged_lr);
  } else if (range.still_falling) {
    out += "still falls at the end: with a larger --step-rate the test would go further\n";
  }
  if (!range.trials.empty()) out += trial_lines(range);
  out += fmt::format("one rate        \"lr\": {:.3g}\n", range.fixed_lr());
  out += fmt::format(
      "OneCycle        \"scheduler\": {{\"type\": \"OneCycle\", \"params\": {{\"cycle_min_lr\": "
      "{:.3g}, \"cycle_max_lr\": {:.3g}}}}}\n",
      range.cycle_min_lr(), range.cycle_max_lr());
  return out;
}

std::string lr_range_json(const LrRange& range, const std::string& run, const std::string& plot) {
  std::string points;
  for (const LrPoint& point : range.points) {
    points += fmt::format("{}{}", points.empty() ? "" : ", ",
                          JsonObject()
                              .integer("step", point.step)
                              .number("lr", point.lr)
                              .number("loss", point.loss)
                              .number("smoothed", point.smoothed)
                              .str());
  }
  std::string trials;
  for (const LrTrial& trial : range.trials) {
    trials += fmt::format("{}{}", trials.empty() ? "" : ", ",
                          JsonObject()
                              .number("lr", trial.lr)
                              .integer("seed", trial.seed)
                              .number("loss", trial.loss)
                              .str());
  }
  return JsonObject()
      .text("run", run)
      .text("plot", plot)
      .number("lowest_loss", range.lowest_loss)
      .number("lowest_lr", range.lowest_lr)
      .number("steepest_lr", range.steepest_lr)
      .number("diverged_lr", range.diverged_lr)
      .raw("still_falling", range.still_falling ? "true" : "false")
      .number("lr", range.fixed_lr())
      .number("cycle_min_lr", range.cycle_min_lr())
      .number("cycle_max_lr", range.cycle_max_lr())
      .integer("trial_steps", range.trial_steps)
      .text("trial_loss", range.trials_held_out ? "validation_loss" : "loss")
      .raw("trials", fmt::format("[{}]", trials))
      .raw("points", fmt::format("[{}]", points))
      .str();
}

}  // namespace ds
