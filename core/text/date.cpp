#include "core/text/date.h"

#include <fmt/format.h>

#include <array>

namespace ds {
namespace {

constexpr bool is_leap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

constexpr int days_of(int year, int month) {
  constexpr std::array kDays{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays.at(static_cast<size_t>(month - 1)) + (month == 2 && is_leap(year) ? 1 : 0);
}

// Days from the first of January of the year 1, which was a Monday, to that of another year.
constexpr int days_before(int year) {
  const int past = year - 1;
  return past * 365 + past / 4 - past / 100 + past / 400;
}

}  // namespace

std::optional<std::tm> parse_date(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-dd";
  if (text.size() != kForm.size()) return std::nullopt;
  std::array<int, 3> numbers{};  // year, month, day
  size_t number = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool is_digit = text[at] >= '0' && text[at] <= '9';
    if (is_digit != (kForm[at] == 'd') || (!is_digit && text[at] != '-')) return std::nullopt;
    if (!is_digit) {
      ++number;
    } else {
      numbers.at(number) = numbers.at(number) * 10 + (text[at] - '0');
    }
  }
  const auto [year, month, day] = numbers;
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_of(year, month)) {
    return std::nullopt;
  }
  std::tm out{};
  out.tm_year = year - 1900;
  out.tm_mon = month - 1;
  out.tm_mday = day;
  for (int before = 1; before < month; ++before) out.tm_yday += days_of(year, before);
  out.tm_yday += day - 1;
  out.tm_wday = (days_before(year) + out.tm_yday + 1) % 7;
  return out;
}

std::string date_of(std::time_t time) {
  std::tm day{};
  localtime_r(&time, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

}  // namespace ds
