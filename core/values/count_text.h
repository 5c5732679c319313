// Counts as texts for people (pure).
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

}  // namespace ds
