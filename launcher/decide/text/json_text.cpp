#include "launcher/decide/text/json_text.h"

#include <fmt/format.h>

#include <cmath>

#include "core/text/utf8.h"

namespace ds {

// Names of files may have bytes that are no UTF-8, which no reader of JSON takes.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : as_utf8(text)) {
    if (c == '"' || c == '\\') {
      out.append(1, '\\').append(1, c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_number(double value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  // Whole numbers without a fraction are easier on the eye, and exact below 2^53.
  constexpr double kExact = 9007199254740992.0;
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return std::to_string(static_cast<int64_t>(value));
  }
  return fmt::format("{}", value);
}

}  // namespace ds
