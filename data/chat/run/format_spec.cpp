#include "data/chat/run/format_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/chat/run/number_text.h"
#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

constexpr size_t kWidest = 100'000;

[[noreturn]] void refuse(std::string_view specification, std::string_view type) {
  throw Fault(fmt::format("format: the specification '{}' is none of {}", specification, type));
}

struct Spec {
  std::string_view written;
  std::string fill = " ";  // one character
  char align = '\0', sign = '\0', grouping = '\0', type = '\0';
  bool no_negative_zero = false, alternate = false;
  size_t width = 0;
  std::optional<size_t> precision = {};
};

// [[fill]align][sign][z][#][0][width][grouping][.precision][type]
class SpecParser {
 public:
  // `align`: that of the type, if none is written.
  SpecParser(std::string_view text, std::string_view type, char align)
      : rest_(text), type_(type), align_(align) {
    out_.written = text;
  }

  Spec parse() {
    const bool is_filled = take_align();
    if (const char c = peek(); c == '+' || c == '-' || c == ' ') out_.sign = take();
    out_.no_negative_zero = take_if('z');
    out_.alternate = take_if('#');
    if (!is_filled && take_if('0')) {
      out_.fill = "0";
      if (out_.align == '\0' && align_ == '>') out_.align = '=';
    }
    out_.width = number().value_or(0);
    if (peek() == ',' || peek() == '_') out_.grouping = take();
    if (peek() == ',' || peek() == '_') refuse(out_.written, type_);
    if (take_if('.')) {
      out_.precision = number();
      if (!out_.precision) refuse(out_.written, type_);
    }
    if (rest_.size() > 1) refuse(out_.written, type_);
    if (!rest_.empty()) out_.type = take();
    if (out_.align == '\0') out_.align = align_;
    return out_;
  }

 private:
  static bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  char take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }
  bool take_if(char c) {
    const bool is = peek() == c;
    if (is) rest_.remove_prefix(1);
    return is;
  }

  // Whether a character to fill with is written.
  bool take_align() {
    const size_t first = rest_.empty() ? 0 : first_character(rest_).length;
    if (first > 0 && first < rest_.size() && is_align(rest_[first])) {
      out_.fill = rest_.substr(0, first);
      rest_.remove_prefix(first);
      out_.align = take();
      return true;
    }
    if (is_align(peek())) out_.align = take();
    return false;
  }

  std::optional<size_t> number() {
    std::optional<size_t> out;
    while (peek() >= '0' && peek() <= '9') {
      out = out.value_or(0) * 10 + static_cast<size_t>(take() - '0');
      if (*out > kWidest) throw Fault("format: a width is too large");
    }
    return out;
  }

  std::string_view rest_, type_;
  char align_;
  Spec out_;
};

std::string filled(const Spec& spec, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += spec.fill;
  return out;
}

// `head`: what stays before the padding of '='.
std::string padded(Context& context, const Spec& spec, const std::string& head,
                   const std::string& body) {
  const size_t length = length_of(std::string_view(head)) + length_of(std::string_view(body));
  const size_t missing = spec.width > length ? spec.width - length : 0;
  context.budget().spend_on(spec.width + length);
  switch (spec.align) {
    case '<':
      return head + body + filled(spec, missing);
    case '^':
      return filled(spec, missing / 2) + head + body + filled(spec, missing - missing / 2);
    case '=':
      return head + filled(spec, missing) + body;
    default:
      return filled(spec, missing) + head + body;
  }
}

// The digits in groups, and with zeros before them so that all of it is `least` characters wide or
// the one more that a group would begin with its sign.
std::string grouped(const std::string& digits, const Spec& spec, size_t group, int64_t least) {
  std::string out;  // from its end
  auto left = static_cast<int64_t>(digits.size());
  const auto most =
      spec.grouping == '\0' ? std::max<int64_t>({left, least, 1}) : static_cast<int64_t>(group);
  while (true) {
    const int64_t count = std::min(most, std::max<int64_t>({left, least, 1}));
    for (int64_t i = 0; i < count; ++i) {
      out += left > 0 ? digits[static_cast<size_t>(left - 1)] : '0';
      --left;
    }
    least -= count;
    if (left <= 0 && least <= 0) break;
    out += spec.grouping;
    --least;
  }
  std::ranges::reverse(out);
  return out;
}

// A number in parts: digits before the point, and whatever stands behind them.
struct NumberText {
  bool is_negative = false;
  std::string prefix = {}, digits = {}, rest = {};
};

std::string put_together(Context& context, const Spec& spec, const NumberText& number) {
  std::string head;
  if (number.is_negative) {
    head = "-";
  } else if (spec.sign == '+' || spec.sign == ' ') {
    head = spec.sign;
  }
  head += number.prefix;
  const auto others = static_cast<int64_t>(head.size() + number.rest.size());
  const bool by_zeros = spec.fill == "0" && spec.align == '=';
  const int64_t least = by_zeros ? static_cast<int64_t>(spec.width) - others : 0;
  const size_t group =
      spec.type == 'b' || spec.type == 'o' || spec.type == 'x' || spec.type == 'X' ? 4 : 3;
  // What has no digits is no number, or infinite.
  const std::string digits =
      number.digits.empty() && least <= 0 ? "" : grouped(number.digits, spec, group, least);
  return padded(context, spec, head, digits + number.rest);
}

std::string of_text(Context& context, const Value& value, std::string_view written) {
  const Spec spec = SpecParser(written, "a text", '<').parse();
  const bool is_odd = spec.sign != '\0' || spec.no_negative_zero || spec.alternate ||
                      spec.grouping != '\0' || spec.align == '=' ||
                      (spec.type != '\0' && spec.type != 's');
  if (is_odd) refuse(written, "a text");
  std::string text = value.as_text();
  if (spec.precision) text.resize(offset_of(text, *spec.precision));
  return padded(context, spec, "", text);
}

std::string of_float(Context& context, double number, const Spec& spec) {
  char type = spec.type == 'n' ? 'g' : spec.type;
  if (std::string_view("eEfFgG%").find(type) == std::string_view::npos && type != '\0')
    refuse(spec.written, "a number with a fraction");
  if (spec.type == 'n' && spec.grouping != '\0') refuse(spec.written, "a number with a fraction");
  const bool is_percent = type == '%';
  if (is_percent) number *= 100, type = 'f';
  const size_t precision = spec.precision.value_or(6);
  context.budget().spend_on(precision);
  std::string text = type == '\0' ? plain_float_text(number, spec.precision, spec.alternate)
                                  : float_text(number, type, precision, spec.alternate);
  if (is_percent) text += '%';
  NumberText parts{.is_negative = text.starts_with('-')};
  if (parts.is_negative) text.erase(0, 1);
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  parts.digits = text.substr(0, end);
  parts.rest = text.substr(end);
  const size_t exponent = std::min(text.find_first_of("eE"), text.size());
  const bool is_zero = end > 0 && text.substr(0, exponent).find_first_of("123456789") == text.npos;
  if (spec.no_negative_zero && is_zero) parts.is_negative = false;
  return put_together(context, spec, parts);
}

std::string of_integer(Context& context, const Value& value, std::string_view written) {
  const char* const kName = "an integer";
  const Spec spec = SpecParser(written, kName, '>').parse();
  const int64_t number = value.as_int();
  const bool is_based =
      spec.type != '\0' && std::string_view("boxX").find(spec.type) != std::string_view::npos;
  if (spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos)
    return of_float(context, static_cast<double>(number), spec);
  if (spec.precision || spec.no_negative_zero) refuse(written, kName);
  if (spec.type == 'c') {
    const bool is_character =
        number >= 0 && number <= 0x10FFFF && !(number >= 0xD800 && number < 0xE000);
    if (spec.sign != '\0' || spec.alternate || spec.grouping != '\0' || !is_character)
      refuse(written, "a character");
    std::string character;
    append_utf8(static_cast<unsigned>(number), character);
    return padded(context, spec, "", character);
  }
  const bool is_decimal = spec.type == '\0' || spec.type == 'd' || spec.type == 'n';
  const bool is_grouped_wrong =
      (is_based && spec.grouping == ',') || (spec.type == 'n' && spec.grouping != '\0');
  if ((!is_decimal && !is_based) || is_grouped_wrong) refuse(written, kName);
  NumberText parts{.is_negative = number < 0, .digits = digits_of(number, spec.type)};
  if (spec.alternate && is_based) parts.prefix = std::string("0") + spec.type;
  return put_together(context, spec, parts);
}

}  // namespace

std::string formatted(Context& context, const Value& value, std::string_view specification) {
  if (specification.empty()) return context.str(value);
  switch (value.kind()) {
    case Kind::kText:
      return of_text(context, value, specification);
    case Kind::kBool:
    case Kind::kInt:
      return of_integer(context, value, specification);
    case Kind::kFloat:
      return of_float(context, value.as_double(),
                      SpecParser(specification, "a number with a fraction", '>').parse());
    default:
      refuse(specification, value.type_name());
  }
}

}  // namespace ds::chat
