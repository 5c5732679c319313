#include "cli/number_checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace ds {

namespace {

// The number that the whole text is; nothing where it is none, or one that the type cannot hold.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(number) : std::nullopt;
}

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

}  // namespace ds
