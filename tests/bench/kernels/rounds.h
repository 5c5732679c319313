// Rounds of work that take their baseline in turn: this machine's speed drifts by more than what is
// compared, so that a figure is the median of the rounds' ratios.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "core/device/stream.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "tests/bench/median.h"

namespace ds::bench {

using Work = std::function<void()>;

struct Rounds {
  HostMemory memory;
  ThreadPool pool;
  Stream stream;
  int rounds;

  Rounds(int threads, int round_count)
      : pool(threads), stream({.memory = &memory, .pool = &pool}), rounds(round_count) {}
};

inline double seconds_of(const Work& work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  int runs = 0;
  double elapsed = 0;
  while (runs < 2 || elapsed < 0.03) {
    work();
    ++runs;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return elapsed / runs;
}

// `units` of work per call (FLOPs or bytes, in 1e9) of both; prints rates and baseline time / time.
inline void compare(const Rounds& bench, const std::string& name, double units, const char* unit,
                    const Work& work, double baseline_units, const char* baseline_name,
                    const Work& baseline) {
  std::vector<double> rates, baseline_rates, ratios;
  work();
  baseline();
  for (int round = 0; round < bench.rounds; ++round) {
    rates.push_back(units / seconds_of(work));
    baseline_rates.push_back(baseline_units / seconds_of(baseline));
    ratios.push_back(rates.back() / baseline_rates.back());
  }
  fmt::print("{:48} {:8.1f} {}   {} {:8.1f}   ratio {:.2f}\n", name, median(rates), unit,
             baseline_name, median(baseline_rates), median(ratios));
}

}  // namespace ds::bench
