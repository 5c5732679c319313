// Curricula over many generated schedules: difficulties stay within their bounds and never fall,
// the samples of a batch are those that a plain look at all metrics admits, and a sampler that was
// stored goes on as if nothing had happened.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/status/error.h"
#include "data/efficiency/curriculum_sampler.h"
#include "tests/support/catch.h"
#include "tests/support/draws.h"

using namespace ds;
using ds::test::Draws;

namespace {

CurriculumOptions linear(int64_t min, int64_t max, int64_t steps) {
  return {.min_difficulty = min,
          .max_difficulty = max,
          .schedule_type = "fixed_linear",
          .total_curriculum_step = steps,
          .difficulty_step = 1};
}

struct Setting {
  int64_t samples;
  int64_t batch;
  std::vector<CurriculumMetric> metrics;
};

Setting random_setting(Draws& draws) {
  Setting setting{.samples = draws.pick(5, 60), .batch = draws.pick(1, 12), .metrics = {}};
  for (int64_t m = draws.pick(1, 2); m > 0; --m) {
    CurriculumMetric metric;
    const bool percentile = draws.pick(0, 1) == 1;
    metric.type = percentile ? DifficultyType::kPercentile : DifficultyType::kValue;
    metric.schedule = percentile ? linear(draws.pick(60, 80), 100, draws.pick(1, 6))
                                 : linear(draws.pick(3, 5), 10, draws.pick(1, 6));
    for (int64_t i = 0; i < setting.samples; ++i) metric.value.push_back(draws.pick(1, 10));
    metric.value[0] = 1;  // somebody is always easy enough
    setting.metrics.push_back(std::move(metric));
  }
  return setting;
}

// Whether a sample is easy enough: by its value, or by its place when all are sorted.
bool admits(const CurriculumMetric& metric, int64_t sample, int64_t difficulty) {
  const auto& value = metric.value;
  const int64_t own = value[static_cast<size_t>(sample)];
  if (metric.type == DifficultyType::kValue) return own <= difficulty;
  int64_t easier = 0;  // of equal ones those with smaller numbers come first
  for (int64_t other = 0; other < std::ssize(value); ++other) {
    const int64_t theirs = value[static_cast<size_t>(other)];
    easier += theirs < own || (theirs == own && other < sample) ? 1 : 0;
  }
  return 100 * (easier + 1) <= difficulty * std::ssize(value);
}

}  // namespace

TEST_CASE("roots rise from their minimum to their maximum and never fall", "[data]") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Draws draws(seed);
    RootSchedule schedule{.min = 8 * draws.pick(1, 10),
                          .max = 0,
                          .steps = draws.pick(1, 200),
                          .granularity = int64_t{1} << draws.pick(0, 3),
                          .root_degree = static_cast<double>(draws.pick(1, 4))};
    schedule.max = schedule.min + draws.pick(0, 500);
    schedule.check("test");
    int64_t before = 0;
    CAPTURE(seed, schedule.min, schedule.max, schedule.steps, schedule.granularity);
    for (int64_t step = 0; step <= schedule.steps + 3; ++step) {
      const int64_t difficulty = schedule.at(step);
      REQUIRE(difficulty >= schedule.min - schedule.min % schedule.granularity);
      REQUIRE(difficulty <= schedule.max);
      REQUIRE((difficulty == schedule.max || difficulty % schedule.granularity == 0));
      REQUIRE(difficulty >= before);
      before = difficulty;
    }
    REQUIRE(before > schedule.max - schedule.granularity);
  }
}

TEST_CASE("steps of a discrete schedule are looked up one after the other", "[data]") {
  Draws draws(7);
  for (int trial = 0; trial < 100; ++trial) {
    DiscreteSchedule schedule;
    for (int64_t i = draws.pick(2, 5); i > 0; --i) schedule.difficulty.push_back(draws.pick(1, 99));
    for (size_t i = 1; i < schedule.difficulty.size(); ++i) {
      schedule.max_step.push_back(draws.pick(1, 20));
    }
    std::ranges::sort(schedule.max_step);
    schedule.check("test");
    for (int64_t step = 0; step < 25; ++step) {
      int64_t expected = schedule.difficulty.back();
      for (size_t i = schedule.max_step.size(); i-- > 0;) {
        if (step <= schedule.max_step[i]) expected = schedule.difficulty[i];
      }
      REQUIRE(schedule.at(step) == expected);
    }
  }
}

TEST_CASE("a batch holds what a plain look at all metrics admits, and in time all of it",
          "[data]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Draws draws(seed);
    const Setting setting = random_setting(draws);
    CurriculumSampler sampler(setting.samples, setting.batch, seed, setting.metrics);
    std::set<int64_t> seen;
    CAPTURE(seed, setting.samples, setting.batch);
    for (int step = 1; step <= 400; ++step) {
      std::vector<int64_t> batch;
      try {
        batch = sampler.next_batch();
      } catch (const ConfigError&) {
        break;  // no sample passes both metrics yet
      }
      REQUIRE(std::ssize(batch) == setting.batch);
      for (const int64_t sample : batch) {
        for (size_t m = 0; m < setting.metrics.size(); ++m) {
          REQUIRE(admits(setting.metrics[m], sample, sampler.difficulty(m)));
        }
        seen.insert(sample);
      }
      if (step < 400) continue;
      for (int64_t sample = 0; sample < setting.samples; ++sample) {
        bool admitted = true;
        for (size_t m = 0; m < setting.metrics.size(); ++m) {
          admitted = admitted && admits(setting.metrics[m], sample, sampler.difficulty(m));
        }
        CHECK(seen.contains(sample) == admitted);
      }
    }
  }
}

TEST_CASE("a sampler that was stored at any step goes on with the same batches", "[data]") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Draws draws(seed);
    Setting setting = random_setting(draws);
    setting.metrics.resize(1);  // so that sample 0 is admitted from the beginning
    setting.metrics[0].type = DifficultyType::kValue;
    setting.metrics[0].schedule = linear(3, 10, 6);
    CurriculumSampler whole(setting.samples, setting.batch, seed, setting.metrics);
    for (int step = 0; step < 12; ++step) {
      CurriculumSampler again(setting.samples, setting.batch, seed, setting.metrics);
      again.restore(whole.state());
      CAPTURE(seed, step);
      CHECK(again.state() == whole.state());
      CurriculumSampler ahead(setting.samples, setting.batch, seed, setting.metrics);
      ahead.restore(whole.state());
      const std::vector<int64_t> next = whole.next_batch();
      CHECK(again.next_batch() == next);
      CHECK(ahead.next_batch() == next);
      CHECK(again.next_batch() == ahead.next_batch());
    }
  }
}
