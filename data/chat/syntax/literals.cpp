#include "data/chat/syntax/literals.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

bool is_digit_of(char c, int base) {
  const int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'z' ? c - 'a' + 10
                    : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                           : 99;
  return digit < base;
}

// How many characters are digits with single underscores between them.
size_t digits_at(std::string_view text, int base) {
  size_t length = 0;
  while (length < text.size()) {
    const bool joined = text[length] == '_' && length > 0 && length + 1 < text.size() &&
                        is_digit_of(text[length + 1], base);
    if (!joined && !is_digit_of(text[length], base)) break;
    ++length;
  }
  return length;
}

std::string without_underscores(std::string_view text) {
  std::string out(text);
  std::erase(out, '_');
  return out;
}

int64_t integer_of(std::string_view digits, int base) {
  const std::string plain = without_underscores(digits);
  int64_t value = 0;
  const auto result = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (result.ec != std::errc{})
    throw Fault(
        fmt::format("the integer {} has more than 64 bits, which are not supported", digits));
  return value;
}

size_t exponent_at(std::string_view text) {
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return 0;
  const size_t sign = text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 1 : 0;
  const size_t digits = digits_at(text.substr(1 + sign), 10);
  return digits == 0 ? 0 : 1 + sign + digits;
}

// The length of a float, 0 for none: it has a fraction or an exponent.
size_t float_at(std::string_view text) {
  size_t length = digits_at(text, 10);
  if (length == 0) return 0;
  size_t fraction = 0;
  if (length < text.size() && text[length] == '.')
    fraction = digits_at(text.substr(length + 1), 10);
  if (fraction > 0) length += 1 + fraction;
  const size_t exponent = exponent_at(text.substr(length));
  return fraction + exponent == 0 ? 0 : length + exponent;
}

double float_of(const std::string& plain) {
  double value = 0;
  const auto result = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (result.ec == std::errc::result_out_of_range) return std::strtod(plain.c_str(), nullptr);
  return value;
}

int base_of_prefix(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 10;
  switch (text[1]) {
    case 'x':
    case 'X':
      return 16;
    case 'o':
    case 'O':
      return 8;
    case 'b':
    case 'B':
      return 2;
    default:
      return 10;
  }
}

// The code point that hexadecimal digits write, and the place behind them.
unsigned hexadecimal(std::string_view text, size_t& at, size_t count) {
  if (text.size() - at < count || digits_at(text.substr(at, count), 16) != count ||
      text.substr(at, count).find('_') != text.npos)
    throw Fault(fmt::format("an escape wants {} hexadecimal digits", count));
  const int64_t code = integer_of(text.substr(at, count), 16);
  at += count;
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
    throw Fault("an escape names no character of Unicode");
  return static_cast<unsigned>(code);
}

void append_escape(std::string_view text, size_t& at, std::string& out) {
  constexpr std::string_view kPlain = "\\'\"abfnrtv", kMeans = "\\'\"\a\b\f\n\r\t\v";
  const char letter = text[at++];
  if (letter == '\n') return;
  if (const size_t known = kPlain.find(letter); known != kPlain.npos) {
    out += kMeans[known];
  } else if (letter == 'x') {
    append_utf8(hexadecimal(text, at, 2), out);
  } else if (letter == 'u') {
    append_utf8(hexadecimal(text, at, 4), out);
  } else if (letter == 'U') {
    append_utf8(hexadecimal(text, at, 8), out);
  } else if (letter == 'N') {
    throw Fault("characters by name (\\N{...}) are not supported");
  } else if (is_digit_of(letter, 8)) {
    unsigned code = static_cast<unsigned>(letter - '0');
    for (int i = 0; i < 2 && at < text.size() && is_digit_of(text[at], 8); ++i)
      code = code * 8 + static_cast<unsigned>(text[at++] - '0');
    append_utf8(code, out);
  } else {
    out += '\\';
    out += letter;
  }
}

}  // namespace

std::optional<Number> number_at(std::string_view text, bool behind_dot) {
  if (text.empty() || !is_digit_of(text[0], 10)) return std::nullopt;
  if (const size_t length = behind_dot ? 0 : float_at(text); length > 0)
    return Number{Value(float_of(without_underscores(text.substr(0, length)))), length};
  const int base = base_of_prefix(text);
  if (base != 10) {
    const size_t skipped = text.size() > 2 && text[2] == '_' ? 3 : 2;
    const size_t digits = digits_at(text.substr(skipped), base);
    if (digits > 0) {
      return Number{Value(integer_of(text.substr(skipped, digits), base)), skipped + digits};
    }
  }
  size_t length = digits_at(text, 10);
  if (text[0] == '0') {  // no digit but 0 follows
    length = 1;
    while (length < text.size() &&
           (text[length] == '0' ||
            (text[length] == '_' && length + 1 < text.size() && text[length + 1] == '0')))
      ++length;
  }
  return Number{Value(integer_of(text.substr(0, length), 10)), length};
}

std::string unescaped_text(std::string_view inside) {
  std::string out;
  for (size_t at = 0; at < inside.size();) {
    if (inside[at] != '\\') {
      out += inside[at++];
      continue;
    }
    if (++at == inside.size()) throw Fault("a text ends in a backslash");
    append_escape(inside, at, out);
  }
  return out;
}

std::optional<double> parsed_float(std::string_view text) {
  text = stripped(text, Side::kBoth);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const double sign = negative ? -1 : 1;
  const std::string word = lower(text);
  if (word == "inf" || word == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  size_t length = digits_at(text, 10);
  size_t digits = length;
  if (length < text.size() && text[length] == '.') {
    const size_t fraction = digits_at(text.substr(length + 1), 10);
    digits += fraction;
    length += 1 + fraction;
  }
  if (digits == 0) return std::nullopt;
  length += exponent_at(text.substr(length));
  if (length != text.size()) return std::nullopt;
  return sign * float_of(without_underscores(text));
}

std::optional<int64_t> parsed_int(std::string_view text, int base) {
  text = stripped(text, Side::kBoth);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (const int prefixed = base_of_prefix(text);
      prefixed != 10 && (base == 0 || base == prefixed)) {
    base = prefixed;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  }
  if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != text.npos)
      return std::nullopt;
  }
  if (text.empty() || digits_at(text, base) != text.size()) return std::nullopt;
  return integer_of((negative ? "-" : "") + std::string(text), base);
}

}  // namespace ds::chat
