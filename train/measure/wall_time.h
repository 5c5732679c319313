// The time of day, which people compare with other clocks. It may jump: what has to wait or to
// measure takes a clock of core/tasks/clock.h.
#pragma once

#include <chrono>

namespace ds {

// Seconds since 1970, by this machine's clock.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace ds
