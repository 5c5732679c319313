// Names in a message, of which only some are shown (pure).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

namespace ds {

// "a, b and 3 more" for `most` of 2.
inline std::string join_some(std::span<const std::string> items, size_t most) {
  const std::span<const std::string> shown = items.first(std::min(items.size(), most));
  const std::string rest =
      items.size() > most ? fmt::format(" and {} more", items.size() - most) : "";
  return fmt::format("{}{}", fmt::join(shown, ", "), rest);
}

}  // namespace ds
