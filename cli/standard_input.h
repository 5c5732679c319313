// Texts that come on standard input in place of arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

inline constexpr int64_t kLargestInput = int64_t{4} << 30;  // bytes

// All of it. UsageError where it is a terminal, since nobody knows then that it is waited for;
// DataError for more than kLargestInput; IoError.
std::string read_standard_input(const std::string& verb);

// Without the line break that editors and `echo` put at the end.
std::string without_last_break(std::string text);
// Lines that are not empty.
std::vector<std::string> lines_of(std::string_view text);

// The same with the place of each line among all of them, from 1 on.
struct NumberedLine {
  std::string text;
  size_t number;
};
std::vector<NumberedLine> numbered_lines_of(std::string_view text);

}  // namespace ds
