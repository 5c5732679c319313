// Time as the launcher's pure cores take it: an argument, never a call.
#pragma once

#include <chrono>

namespace ds {

using Time = std::chrono::nanoseconds;  // monotonic; the origin does not matter

inline double seconds_of(Time time) { return std::chrono::duration<double>(time).count(); }

}  // namespace ds
