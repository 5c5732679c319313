// Dates as words: "2026-11-30".
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace ds {

// The beginning of that day, with its day of the week and of the year. Nothing for what is no date
// of the years 1 to 9999, written in ten characters.
std::optional<std::tm> parse_date(std::string_view text);

// The time in this machine's zone.
std::tm local_time(std::time_t time);
// The day in which it lies there.
std::string date_of(std::time_t time);

}  // namespace ds
