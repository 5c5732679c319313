// What to say when the kernel lets a host's ranks wait for memory (pure; clock injected): a run
// that crawls under memory.high, or swaps, looks like one that hangs.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/memory/cgroup.h"

namespace ds {

class PressureWords {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr double kWorthSaying = 25;  // percent of the last 10 s
  static constexpr std::chrono::minutes kApart{1};

  // Empty where there is nothing to say, or it was said a moment ago.
  std::string look(TimePoint now, const MemoryPressure& pressure);

 private:
  std::optional<TimePoint> said_at_;
};

}  // namespace ds
