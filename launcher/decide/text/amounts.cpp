#include "launcher/decide/text/amounts.h"

#include <fmt/format.h>

namespace ds {

std::string format_duration(Time duration) {
  if (duration < std::chrono::seconds(10)) {
    return fmt::format("{:.1f}s", seconds_of(duration));
  }
  const auto seconds = std::chrono::round<std::chrono::seconds>(duration).count();
  if (seconds < 60) {
    return fmt::format("{}s", seconds);
  }
  if (seconds < 3600) {
    return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  }
  return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
}

std::string format_count(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace ds
