// The bytes that pickles lie in, and how a defect of them is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ds {

struct PickleSource {
  std::string path{};
  std::string entry{};  // of the zip archive; empty: the pickle lies in the file itself
  std::span<const std::byte> bytes{};

  // DataError that names the file, the byte and the defect.
  [[noreturn]] void refuse(int64_t at, const std::string& defect) const;
};

// A text of the file as messages may have it: short, and without control characters.
std::string quoted_of_file(std::string_view text);

}  // namespace ds
