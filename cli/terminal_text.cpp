#include "cli/terminal_text.h"

#include <algorithm>

#include "config/reader/utf8.h"

namespace ds {
namespace {

// A terminal would obey it, or show what follows in another order than it stands.
bool steers(unsigned code) {
  if (code == '\n' || code == '\t') return false;
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

bool is_plain(char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t'; }

}  // namespace

std::string terminal_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto odd = std::ranges::find_if_not(text, is_plain);
    out.append(text.begin(), odd);
    text.remove_prefix(static_cast<size_t>(odd - text.begin()));
    if (text.empty()) break;
    const Utf8Character first = first_character(text);
    if (steers(first.code)) {
      out += fmt::format("\\u{:04x}", first.code);
    } else {
      append_utf8(first.code, out);
    }
    text.remove_prefix(first.length);
  }
  return out;
}

std::string_view fitting(std::string_view text, size_t columns) {
  size_t bytes = 0;
  for (size_t column = 0; column < columns && bytes < text.size(); ++column) {
    bytes += first_character(text.substr(bytes)).length;
  }
  return text.substr(0, bytes);
}

void steer_terminal(std::FILE* to, std::string_view sequence) {
  fmt::print(to, "{}", sequence);
  std::fflush(to);
}

}  // namespace ds
