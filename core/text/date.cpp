#include "core/text/date.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

namespace ds {

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
  const std::chrono::year year(numbers[0]);
  const std::chrono::year_month_day date(year,
                                         std::chrono::month(static_cast<unsigned>(numbers[1])),
                                         std::chrono::day(static_cast<unsigned>(numbers[2])));
  if (numbers[0] < 1 || !date.ok()) return std::nullopt;
  const std::chrono::sys_days day(date), new_year(year / 1 / 1);
  std::tm out{};
  out.tm_year = numbers[0] - 1900;
  out.tm_mon = numbers[1] - 1;
  out.tm_mday = numbers[2];
  out.tm_yday = static_cast<int>((day - new_year).count());
  out.tm_wday = static_cast<int>(std::chrono::weekday(day).c_encoding());
  return out;
}

std::tm local_time(std::time_t time) {
  std::tm out{};
  localtime_r(&time, &out);
  return out;
}

std::string date_of(std::time_t time) {
  const std::tm day = local_time(time);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

}  // namespace ds
