// Durations as they are typed: "90", "90s", "10m", "2h" (pure).
#pragma once

#include <chrono>
#include <string_view>

namespace ds {

// Throws UsageError.
std::chrono::nanoseconds parse_duration(std::string_view text);

}  // namespace ds
