// Counts and sizes as texts for people (pure).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "core/values/number_text.h"

namespace ds {

// "417", "2.5 M".
inline std::string count_text(int64_t count) {
  return count < 1000 ? fmt::to_string(count)
                      : number_text(static_cast<double>(count), std::nullopt, 1);
}

// "417 B", "2.5 GiB".
template <class Bytes>
std::string size_text(Bytes bytes, int decimals = 1) {
  const auto [value, unit] = scale_bytes(static_cast<double>(bytes));
  return fmt::format("{:.{}f} {}", value, unit == "B" ? 0 : decimals, unit);
}

}  // namespace ds
