#include "data/chat/run/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/chat/value/characters.h"
#include "data/chat/value/print.h"

namespace ds::chat {

std::string digits_of(int64_t number, char kind) {
  const uint64_t size =
      number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  switch (kind) {
    case 'b':
      return fmt::format("{:b}", size);
    case 'o':
      return fmt::format("{:o}", size);
    case 'x':
      return fmt::format("{:x}", size);
    case 'X':
      return fmt::format("{:X}", size);
    default:
      return fmt::format("{}", size);
  }
}

namespace {

// A point, if there is none, before the exponent or at the end.
void put_point(std::string& text) {
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".");
}

// Zeros behind the point go, and the point that nothing is left behind.
void strip_zeros(std::string& text) {
  if (text.find('.') == std::string::npos) return;
  text.resize(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
}

// So many digits, with an exponent where that is below -4 or at least `most`.
std::string general_text(double value, size_t digits, int most, bool alternate) {
  std::string text = fmt::format("{:.{}e}", value, digits - 1);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));  // which rounding decides
  std::string behind;
  if (exponent < -4 || exponent >= most) {
    behind = text.substr(e);
    text.resize(e);
  } else {
    const auto decimals = static_cast<int64_t>(digits) - 1 - exponent;
    text = fmt::format("{:.{}f}", value, decimals);
  }
  if (alternate) {
    put_point(text);
  } else {
    strip_zeros(text);
  }
  return text + behind;
}

}  // namespace

std::string float_text(double value, char kind, size_t precision, bool alternate) {
  const bool is_capital = kind == 'E' || kind == 'F' || kind == 'G';
  std::string out;
  if (!std::isfinite(value)) {
    out = repr_of_float(value);
  } else if (kind == 'g' || kind == 'G') {
    const size_t digits = std::max<size_t>(precision, 1);
    out = general_text(value, digits, static_cast<int>(digits), alternate);
  } else {
    out = kind == 'f' || kind == 'F' ? fmt::format("{:.{}f}", value, precision)
                                     : fmt::format("{:.{}e}", value, precision);
    if (alternate) put_point(out);
  }
  return is_capital ? upper(out) : out;
}

std::string plain_float_text(double value, std::optional<size_t> precision, bool alternate) {
  if (!std::isfinite(value)) return repr_of_float(value);
  std::string out;
  if (precision) {
    const size_t digits = std::max<size_t>(*precision, 1);
    out = general_text(value, digits, static_cast<int>(digits) - 1, alternate);
    if (out.find_first_of(".e") == std::string::npos) out += ".0";
  } else {
    out = repr_of_float(value);
    if (alternate) put_point(out);
  }
  return out;
}

}  // namespace ds::chat
