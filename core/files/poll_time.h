// How long poll() may wait for what is due at some time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace ds {

// In milliseconds, rounded up so that nobody spins through the last one; 0 when it has passed.
inline int poll_time_until(std::chrono::steady_clock::time_point deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

}  // namespace ds
