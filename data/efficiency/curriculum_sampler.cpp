// Curriculum sampling.
#include "data/efficiency/curriculum_sampler.h"

#include <algorithm>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/rng.h"
#include "data/sampler.h"

namespace ds {
namespace {

// The least percentile d with floor(n d / 100) > rank, per sample.
std::vector<int64_t> percentile_thresholds(std::span<const int64_t> value) {
  const int64_t n = narrow<int64_t>(value.size());
  std::vector<size_t> order(value.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return value[a] < value[b]; });
  std::vector<int64_t> threshold(value.size());
  for (int64_t rank = 0; rank < n; ++rank) {
    threshold[nth(order, rank)] = (100 * (rank + 1) + n - 1) / n;
  }
  return threshold;
}

}  // namespace

CurriculumSampler::CurriculumSampler(int64_t samples, int64_t global_batch, uint64_t seed,
                                     std::vector<CurriculumMetric> metrics)
    : global_batch_(global_batch), seed_(seed) {
  if (samples < 1 || global_batch < 1) {
    throw ConfigError(
        fmt::format("curriculum: {} samples in batches of {}", samples, global_batch));
  }
  admitted_.assign(to_size(samples), 0);
  for (CurriculumMetric& metric : metrics) {
    if (metric.clustering == Clustering::kByDifficulty &&
        narrow<int64_t>(metric.value.size()) != samples) {
      throw ConfigError(
          fmt::format("curriculum: a metric has {} values for {} samples; analyze "
                      "the data set again",
                      metric.value.size(), samples));
    }
    std::vector<int64_t> threshold;
    if (metric.clustering == Clustering::kByDifficulty) {
      threshold = metric.type == DifficultyType::kValue ? std::move(metric.value)
                                                        : percentile_thresholds(metric.value);
    }
    metrics_.push_back({std::move(threshold), Curriculum(metric.schedule)});
  }
}

// The samples that all metrics admit now and did not before.
void CurriculumSampler::add_cluster() {
  Cluster cluster;
  for (const Metric& metric : metrics_) cluster.difficulty.push_back(metric.curriculum.current());
  for (size_t sample = 0; sample < admitted_.size(); ++sample) {
    const auto admits = [&](const Metric& metric) {
      return metric.threshold.empty() || metric.threshold[sample] <= metric.curriculum.current();
    };
    if (admitted_[sample] != 0 || !std::all_of(metrics_.begin(), metrics_.end(), admits)) continue;
    admitted_[sample] = 1;
    cluster.samples.push_back(static_cast<int64_t>(sample));
  }
  if (!cluster.samples.empty()) clusters_.push_back(std::move(cluster));
}

// The next sample of a cluster: each pass over it is a permutation of its own.
int64_t CurriculumSampler::draw_from(size_t cluster) {
  Cluster& from = clusters_[cluster];
  const int64_t size = narrow<int64_t>(from.samples.size());
  const Rng pass = Rng(seed_, "curriculum cluster")
                       .derive(cluster)
                       .derive(static_cast<uint64_t>(from.position / size));
  const int64_t index = Permutation(size, pass.key())(from.position % size);
  ++from.position;
  return nth(from.samples, index);
}

std::vector<int64_t> CurriculumSampler::next_batch() {
  ++step_;
  bool changed = step_ == 1;
  for (Metric& metric : metrics_) {
    const int64_t before = metric.curriculum.current();
    changed = metric.curriculum.update(step_) != before || changed;
  }
  if (changed) add_cluster();
  std::vector<int64_t> ends;  // of the clusters, laid end to end
  for (const Cluster& cluster : clusters_) {
    const int64_t begin = ends.empty() ? 0 : ends.back();
    ends.push_back(begin + narrow<int64_t>(cluster.samples.size()));
  }
  if (ends.empty()) {
    throw ConfigError(fmt::format(
        "curriculum: no sample is easy enough at step {}; raise min_difficulty", step_));
  }
  const Rng rng = Rng(seed_, "curriculum batch").derive(static_cast<uint64_t>(step_));
  std::vector<int64_t> batch;
  for (int64_t i = 0; i < global_batch_; ++i) {
    const auto word = [&](int64_t k) {
      return static_cast<uint64_t>(rng.bits(static_cast<uint64_t>(2 * i + k)));
    };
    const uint64_t draw = (word(0) << 32 | word(1)) % static_cast<uint64_t>(ends.back());
    const auto at = std::upper_bound(ends.begin(), ends.end(), static_cast<int64_t>(draw));
    batch.push_back(draw_from(to_size(at - ends.begin())));
  }
  return batch;
}

CurriculumSampler::State CurriculumSampler::state() const {
  State state{.step = step_};
  for (const Metric& metric : metrics_) state.difficulty.push_back(metric.curriculum.current());
  for (const Cluster& cluster : clusters_) {
    state.cluster_difficulty.push_back(cluster.difficulty);
    state.cluster_position.push_back(cluster.position);
  }
  return state;
}

void CurriculumSampler::restore(const State& state) {
  if (state.difficulty.size() != metrics_.size() ||
      state.cluster_position.size() != state.cluster_difficulty.size()) {
    throw ValidationError(fmt::format(
        "curriculum: the saved state has {} metrics and {} positions for {} clusters, expected {} "
        "metrics",
        state.difficulty.size(), state.cluster_position.size(), state.cluster_difficulty.size(),
        metrics_.size()));
  }
  clusters_.clear();
  std::fill(admitted_.begin(), admitted_.end(), uint8_t{0});
  const auto set_difficulty = [&](const std::vector<int64_t>& difficulty) {
    for (size_t m = 0; m < metrics_.size(); ++m) {
      metrics_[m].curriculum.restore(difficulty.at(m));
    }
  };
  for (size_t c = 0; c < state.cluster_difficulty.size(); ++c) {
    set_difficulty(state.cluster_difficulty[c]);
    add_cluster();
    if (clusters_.size() != c + 1) {
      throw ValidationError(fmt::format(
          "curriculum: saved cluster {} is empty over this data; it was analyzed anew", c));
    }
    clusters_.back().position = state.cluster_position[c];
  }
  set_difficulty(state.difficulty);
  step_ = state.step;
}

}  // namespace ds
