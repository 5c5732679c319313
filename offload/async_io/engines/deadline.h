// What is left until a deadline, as the kernel's interfaces take it.
#pragma once

#include <algorithm>
#include <chrono>

#include "offload/async_io/io_engine.h"

namespace ds {

// Seconds and nanoseconds, never negative; `Time` is timespec or what looks like it.
template <class Time>
Time time_until(IoEngine::Deadline deadline) {
  using std::chrono::nanoseconds;
  const auto left = std::max(nanoseconds(0), std::chrono::duration_cast<nanoseconds>(
                                                 deadline - std::chrono::steady_clock::now()));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {seconds.count(), (left - seconds).count()};
}

}  // namespace ds
