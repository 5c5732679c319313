#include "cli/text/terminal_text.h"

#include <algorithm>
#include <array>

#include "core/text/utf8.h"

namespace ds {
namespace {

// A terminal would obey it, or show what follows in another order than it stands.
bool steers(unsigned code) {
  if (code == '\n' || code == '\t') return false;
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

// Blocks of characters that terminals draw two columns wide, or may (Unicode's EastAsianWidth.txt).
struct Block {
  unsigned first;
  unsigned last;
};
constexpr std::array kWide{Block{0x1100, 0x115F},   Block{0x231A, 0x231B},  Block{0x2329, 0x232A},
                           Block{0x23E9, 0x23F3},   Block{0x25FD, 0x27BF},  Block{0x2B1B, 0x2B55},
                           Block{0x2E80, 0x303E},   Block{0x3041, 0xA4CF},  Block{0xA960, 0xA97F},
                           Block{0xAC00, 0xD7A3},   Block{0xF900, 0xFAFF},  Block{0xFE10, 0xFE6F},
                           Block{0xFF01, 0xFF60},   Block{0xFFE0, 0xFFE6},  Block{0x16FE0, 0x1B2FF},
                           Block{0x1F000, 0x1FAFF}, Block{0x20000, 0x3FFFD}};

size_t columns_of(unsigned code) {
  const auto holds = [code](const Block& block) {
    return code >= block.first && code <= block.last;
  };
  return std::ranges::any_of(kWide, holds) ? 2 : 1;
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

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Utf8Character first = first_character(text);
    columns += columns_of(first.code);
    text.remove_prefix(first.length);
  }
  return columns;
}

std::string_view fitting(std::string_view text, size_t columns) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Utf8Character next = first_character(text.substr(bytes));
    const size_t taken = columns_of(next.code);
    if (taken > columns) break;
    columns -= taken;
    bytes += next.length;
  }
  return text.substr(0, bytes);
}

void steer_terminal(std::FILE* to, std::string_view sequence) {
  fmt::print(to, "{}", sequence);
  std::fflush(to);
}

}  // namespace ds
