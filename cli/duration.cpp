#include "cli/duration.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

std::chrono::nanoseconds parse_duration(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const std::string_view unit(parsed.ptr, to_size(end - parsed.ptr));
  const std::map<std::string_view, double> units{{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
  const auto scale = units.find(unit);
  // Ten years: far below the overflow of nanoseconds.
  constexpr double kLongest = 3600.0 * 24 * 3650;
  if (parsed.ec != std::errc() || scale == units.end() || !(value > 0) ||
      value * scale->second > kLongest) {
    throw UsageError(fmt::format("duration '{}': expected a positive number and s, m or h", text));
  }
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(value * scale->second));
}

}  // namespace ds
