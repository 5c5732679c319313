#include "cli/number_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "core/text/number_in.h"

namespace ds {

namespace {

std::string refuse_number(const std::string& text, const std::string& expected) {
  return fmt::format("'{}', expected {}", text, expected);
}

}  // namespace

ValueCheck whole_check(int64_t least, int64_t most) {
  const auto check = [least, most](const std::string& text) {
    const auto number = number_in<int64_t>(text);
    if (number && *number >= least && *number <= most) return std::string();
    return refuse_number(text, fmt::format("a whole number from {} to {}", least, most));
  };
  return ValueCheck(check, "");
}

ValueCheck seed_check() {
  const auto check = [](const std::string& text) {
    if (number_in<uint64_t>(text)) return std::string();
    return refuse_number(text, fmt::format("a whole number from 0 to {}", UINT64_MAX));
  };
  return ValueCheck(check, "");
}

ValueCheck number_check(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    const auto number = number_in<double>(text);
    if (number && *number >= least && *number <= most) return std::string();
    return refuse_number(text, most == std::numeric_limits<double>::max()
                                   ? fmt::format("a finite number from {} on", least)
                                   : fmt::format("a number from {} to {}", least, most));
  };
  return ValueCheck(check, "");
}

ValueCheck positive_number_check() {
  const auto check = [](const std::string& text) {
    const auto number = number_in<double>(text);
    if (number && *number > 0 && std::isfinite(*number)) return std::string();
    return refuse_number(text, "a finite number above 0");
  };
  return ValueCheck(check, "");
}

std::optional<int64_t> parse_size(std::string_view text) {
  int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || number < 1) return std::nullopt;
  std::string unit(text.substr(static_cast<size_t>(parsed.ptr - text.data())));
  while (unit.starts_with(' ')) unit.erase(0, 1);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with('b') || unit.ends_with('i')) {
    unit.pop_back();
  }
  constexpr std::string_view kUnits = "kmgtpe";
  if (unit.empty()) return number;
  const size_t power = unit.size() == 1 ? kUnits.find(unit) : std::string_view::npos;
  if (power == std::string_view::npos) return std::nullopt;
  const int shift = 10 * static_cast<int>(power + 1);
  if (number > std::numeric_limits<int64_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

ValueCheck size_check() {
  const auto check = [](const std::string& text) {
    if (parse_size(text)) return std::string();
    return refuse_number(text, "a size above 0, such as 4096, 128K or 1G");
  };
  return ValueCheck(check, "");
}

}  // namespace ds
