// Time as the launcher's pure cores take it: an argument, never a call.
#pragma once

#include <chrono>
#include <cstdint>

namespace ds {

using Time = std::chrono::nanoseconds;  // monotonic; the origin does not matter

inline int64_t in_milliseconds(Time time) {
  return std::chrono::ceil<std::chrono::milliseconds>(time).count();
}

inline double seconds_of(Time time) { return std::chrono::duration<double>(time).count(); }

}  // namespace ds
