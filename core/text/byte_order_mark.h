// The mark that some editors put before a text of UTF-8, and that is no part of it (pure).
#pragma once

#include <string_view>

namespace ds {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The text behind the mark, if it has one.
constexpr std::string_view without_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

}  // namespace ds
