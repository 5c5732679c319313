// Time as the launcher's pure cores take it: an argument, never a call.
#pragma once

#include <chrono>

namespace ds {

using Time = std::chrono::nanoseconds;  // monotonic; the origin does not matter

}  // namespace ds
