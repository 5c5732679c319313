// Bytes as text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ds {

// Two lower-case digits for each byte.
inline std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out.push_back(kDigits[std::to_integer<size_t>(byte >> 4)]);
    out.push_back(kDigits[std::to_integer<size_t>(byte & std::byte{15})]);
  }
  return out;
}

}  // namespace ds
