// Curriculum sampling: who is admitted when, that everyone is seen, and resuming.
#include "data/efficiency/curriculum_sampler.h"

#include <algorithm>
#include <set>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

CurriculumOptions from_to(int64_t min, int64_t max, int64_t steps) {
  return {.min_difficulty = min,
          .max_difficulty = max,
          .schedule_type = "fixed_linear",
          .total_curriculum_step = steps,
          .difficulty_step = 1};
}

// Sample i has value i / 10: ten samples of each of ten values.
std::vector<int64_t> values() {
  std::vector<int64_t> value(100);
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<int64_t>(i / 10);
  return value;
}

}  // namespace

TEST_CASE("a batch holds only samples that are easy enough by then", "[data]") {
  CurriculumSampler sampler(100, 16, 7, {{.value = values(), .schedule = from_to(1, 9, 8)}});
  for (int step = 1; step <= 12; ++step) {
    for (const int64_t sample : sampler.next_batch()) {
      CHECK(sample / 10 <= sampler.difficulty(0));
    }
  }
  CHECK(sampler.difficulty(0) == 9);
  CHECK(sampler.clusters() == 8);
}

TEST_CASE("a cluster's samples come round only when all were seen", "[data]") {
  CurriculumSampler sampler(10, 5, 1, {});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> seen = sampler.next_batch();
    const std::vector<int64_t> rest = sampler.next_batch();
    seen.insert(seen.end(), rest.begin(), rest.end());
    CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == 10);
  }
}

TEST_CASE("percentiles admit that share of the samples", "[data]") {
  CurriculumSampler sampler(
      100, 64, 3,
      {{.value = values(), .schedule = from_to(25, 25, 1), .type = DifficultyType::kPercentile}});
  std::set<int64_t> seen;
  for (int step = 0; step < 8; ++step) {
    for (const int64_t sample : sampler.next_batch()) seen.insert(sample);
  }
  CHECK(seen.size() == 25);
  CHECK(*seen.rbegin() == 24);
}

TEST_CASE("several metrics admit what all of them admit, single clusters do not restrict",
          "[data]") {
  std::vector<int64_t> reversed = values();
  std::reverse(reversed.begin(), reversed.end());
  CurriculumSampler sampler(
      100, 64, 3,
      {{.value = values(), .schedule = from_to(5, 5, 1)},
       {.value = reversed, .schedule = from_to(5, 5, 1)},
       {.schedule = from_to(8, 64, 4), .clustering = Clustering::kSingleCluster}});
  for (const int64_t sample : sampler.next_batch()) CHECK((sample >= 40 && sample < 60));
  CHECK(sampler.difficulty(2) == 22);
}

TEST_CASE("a restored sampler goes on with the same samples", "[data]") {
  const std::vector<CurriculumMetric> metrics{{.value = values(), .schedule = from_to(1, 9, 10)}};
  CurriculumSampler original(100, 8, 5, metrics), resumed(100, 8, 5, metrics);
  for (int step = 0; step < 6; ++step) original.next_batch();
  resumed.restore(original.state());
  CHECK(resumed.state() == original.state());
  for (int step = 0; step < 10; ++step) CHECK(resumed.next_batch() == original.next_batch());
}

TEST_CASE("what cannot be sampled is refused", "[data]") {
  CHECK_THROWS_AS(CurriculumSampler(0, 1, 1, {}), ConfigError);
  CHECK_THROWS_AS(CurriculumSampler(5, 1, 1, {{.value = values(), .schedule = from_to(1, 9, 10)}}),
                  ConfigError);
  CurriculumSampler hard(100, 1, 1, {{.value = values(), .schedule = from_to(-1, -1, 1)}});
  CHECK_THROWS_AS(hard.next_batch(), ConfigError);
  CurriculumSampler other(100, 1, 1, {});
  CHECK_THROWS_AS(other.restore(hard.state()), ValidationError);
}
