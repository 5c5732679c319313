#include "rankd/verbs/classes/value_figures.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/values/index.h"

namespace ds {

void ScoredValues::on_scores(Stream& stream, const Tensor& scores, const Tensor& targets,
                             const Tensor& values) {
  width_ = to_size(scores.shape()[1]);
  const int64_t length = targets.numel() / values.shape()[0];
  std::vector<float> given(to_size(scores.numel())), wanted(to_size(values.numel()));
  std::vector<int32_t> counts(to_size(targets.numel()));
  stream.copy(scores.address(), given.data(), scores.bytes());
  stream.copy(values.address(), wanted.data(), values.bytes());
  stream.copy(targets.address(), counts.data(), targets.bytes());
  stream.synchronize();
  const auto append = [this](std::vector<float>& to, const std::vector<float>& from, int64_t row) {
    const auto begin = from.begin() + row * narrow<std::ptrdiff_t>(width_);
    to.insert(to.end(), begin, begin + narrow<std::ptrdiff_t>(width_));
  };
  for (int64_t row = 0; row < std::ssize(counts); ++row) {
    if (nth(counts, row) < 0) continue;
    append(scores_, given, row);
    append(values_, wanted, row / length);
    ++rows_;
  }
}

std::vector<double> ScoredValues::column(const std::vector<float>& all, size_t label) const {
  std::vector<double> out;
  for (size_t i = label; i < all.size(); i += width_) out.push_back(all[i]);
  return out;
}

double mean_absolute_error(const std::vector<double>& scores, const std::vector<double>& values) {
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) sum += std::abs(scores[i] - values[i]);
  return sum / static_cast<double>(scores.size());
}

namespace {

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

// From 1 on; equal numbers have the mean of their ranks.
std::vector<double> ranks_of(const std::vector<double>& x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t one, size_t other) { return x[one] < x[other]; });
  std::vector<double> ranks(x.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && x[order[end]] == x[order[begin]]) ++end;
    const double rank = (static_cast<double>(begin + end) + 1) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = rank;
  }
  return ranks;
}

}  // namespace

std::optional<double> pearson(const std::vector<double>& scores,
                              const std::vector<double>& values) {
  const double of_scores = mean(scores), of_values = mean(values);
  double together = 0, scores_alone = 0, values_alone = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double s = scores[i] - of_scores, v = values[i] - of_values;
    together += s * v;
    scores_alone += s * s;
    values_alone += v * v;
  }
  const double norm = std::sqrt(scores_alone) * std::sqrt(values_alone);
  return norm > 0 ? std::optional(together / norm) : std::nullopt;
}

std::optional<double> spearman(const std::vector<double>& scores,
                               const std::vector<double>& values) {
  return pearson(ranks_of(scores), ranks_of(values));
}

namespace {

bool says_so(double score) { return score > 0; }
bool holds(double value) { return value >= 0.5; }

}  // namespace

double HoldTally::f1() const {
  const int64_t both = holds + predicted;
  return both == 0 ? 0 : 2 * static_cast<double>(right) / static_cast<double>(both);
}

HoldTally& HoldTally::operator+=(const HoldTally& other) {
  holds += other.holds;
  right += other.right;
  predicted += other.predicted;
  return *this;
}

HoldTally hold_tally(const std::vector<double>& scores, const std::vector<double>& values) {
  HoldTally tally;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (holds(values[i])) ++tally.holds;
    if (says_so(scores[i])) ++tally.predicted;
    if (holds(values[i]) && says_so(scores[i])) ++tally.right;
  }
  return tally;
}

double share_of_exact(const ScoredValues& scored, size_t labels) {
  std::vector<bool> exact(to_size(scored.rows()), true);
  for (size_t label = 0; label < labels; ++label) {
    const std::vector<double> scores = scored.scores_of(label), values = scored.values_of(label);
    for (size_t row = 0; row < exact.size(); ++row) {
      if (says_so(scores[row]) != holds(values[row])) exact[row] = false;
    }
  }
  return static_cast<double>(std::ranges::count(exact, true)) / static_cast<double>(exact.size());
}

}  // namespace ds
