// Which samples a curriculum lets into each global batch (pure): a function of the seed, the
// metrics and the step alone. Every time a difficulty rises, the samples that became admissible
// form a new cluster; a batch draws clusters by size and takes each cluster's samples in a shuffled
// order that comes round again only when all were seen. The order is ours: DeepSpeed's rules, not
// its generator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/efficiency/curriculum.h"

namespace ds {

// What a difficulty is compared with: the sample's value, or the percentage of samples (by value,
// equal ones by number) that are at most as hard.
enum class DifficultyType { kValue, kPercentile };
// Whether the metric restricts the samples at all; kSingleCluster only paces something else, such
// as the sequence length.
enum class Clustering { kByDifficulty, kSingleCluster };

struct CurriculumMetric {
  std::vector<int64_t> value = {};  // per sample
  CurriculumOptions schedule;
  DifficultyType type = DifficultyType::kValue;
  Clustering clustering = Clustering::kByDifficulty;
};

class CurriculumSampler {
 public:
  // Every metric has one value per sample. ConfigError for a wrong schedule or sizes that differ.
  CurriculumSampler(int64_t samples, int64_t global_batch, uint64_t seed,
                    std::vector<CurriculumMetric> metrics);

  // Sample numbers of the next global batch. Steps count from 1, as the schedules see them. Throws
  // ConfigError while no sample is easy enough.
  std::vector<int64_t> next_batch();

  int64_t difficulty(size_t metric) const { return metrics_[metric].curriculum.current(); }
  size_t clusters() const { return clusters_.size(); }

  // What a checkpoint keeps; restore() rebuilds the clusters from it.
  struct State {
    int64_t step = 0;
    std::vector<int64_t> difficulty = {};                       // per metric
    std::vector<std::vector<int64_t>> cluster_difficulty = {};  // per cluster, per metric
    std::vector<int64_t> cluster_position = {};                 // samples drawn so far
    bool operator==(const State&) const = default;
  };
  State state() const;
  void restore(const State& state);

 private:
  struct Metric {
    std::vector<int64_t> threshold;  // per sample: the least difficulty that admits it; or empty
    Curriculum curriculum;
  };
  struct Cluster {
    std::vector<int64_t> samples;     // ascending
    std::vector<int64_t> difficulty;  // per metric, when it was formed
    int64_t position = 0;
  };

  void add_cluster();
  int64_t draw_from(size_t cluster);

  int64_t global_batch_;
  uint64_t seed_;
  int64_t step_ = 0;
  std::vector<Metric> metrics_;
  std::vector<Cluster> clusters_;
  std::vector<uint8_t> admitted_;  // per sample
};

}  // namespace ds
