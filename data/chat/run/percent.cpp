// Python's formatting of texts by %.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/chat/run/number_text.h"
#include "data/chat/run/operators.h"
#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

constexpr int64_t kWidest = 100'000;

struct Spec {
  bool left = false, zeros = false, plus = false, space = false, alternate = false;
  std::optional<size_t> width, precision;
};

class PercentFormatter {
 public:
  PercentFormatter(Context& context, std::string_view format, const Value& values)
      : context_(context), format_(format), values_(values) {}

  std::string run() {
    while (at_ < format_.size()) {
      if (format_[at_] == '%') {
        ++at_;
        append_conversion();
      } else {
        out_ += format_[at_++];
      }
      if (out_.size() > context_.budget().limits().bytes) context_.budget().take(out_.size());
    }
    // Python takes whatever has [] for a source of names, of which none need be used.
    const bool takes_any = values_.is(Kind::kDict) || values_.is(Kind::kList) ||
                           values_.is(Kind::kRange) || values_.is(Kind::kUndefined) || by_name_;
    const size_t given = values_.is(Kind::kTuple) ? values_.items().size() : 1;
    if (!takes_any && used_ < given) throw Fault("%: not all values are used by the format");
    return std::move(out_);
  }

 private:
  char next() {
    if (at_ >= format_.size()) throw Fault("%: the format ends in the middle of a conversion");
    return format_[at_++];
  }

  Value take() {
    if (values_.is(Kind::kTuple)) {
      if (used_ >= values_.items().size()) throw Fault("%: the format wants more values");
      return values_.items()[used_++];
    }
    if (used_++ > 0) throw Fault("%: the format wants more values");
    return values_;
  }

  Value take_named() {
    std::string name;
    for (char c = next(); c != ')'; c = next()) name += c;
    by_name_ = true;
    if (!values_.is(Kind::kDict)) throw Fault("%: the format wants a dict");
    const Value* found = values_.as_dict().find(name);
    if (found == nullptr) throw Fault(fmt::format("%: there is no '{}'", name));
    return *found;
  }

  // That of a "*" may be below 0.
  std::optional<int64_t> number() {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      const Value value = take();
      if (!value.is_integer()) throw Fault("%: a '*' wants an integer");
      if (std::abs(value.as_int()) > kWidest) throw Fault("%: a width is too large");
      return value.as_int();
    }
    std::optional<int64_t> out;
    while (at_ < format_.size() && format_[at_] >= '0' && format_[at_] <= '9') {
      out = out.value_or(0) * 10 + (next() - '0');
      if (*out > kWidest) throw Fault("%: a width is too large");
    }
    return out;
  }

  void append_conversion() {
    std::optional<Value> named;
    if (at_ < format_.size() && format_[at_] == '%') {
      out_ += format_[at_++];
      return;
    }
    if (at_ < format_.size() && format_[at_] == '(') {
      ++at_;
      named = take_named();
    }
    Spec spec;
    for (bool more = true; more;) {
      const char c = at_ < format_.size() ? format_[at_] : '\0';
      more = c != '\0' && std::string_view("-0+ #").find(c) != std::string_view::npos;
      if (more) ++at_;
      spec.left |= c == '-';
      spec.zeros |= c == '0';
      spec.plus |= c == '+';
      spec.space |= c == ' ';
      spec.alternate |= c == '#';
    }
    if (const auto width = number()) {
      spec.left |= *width < 0;
      spec.width = static_cast<size_t>(std::abs(*width));
    }
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      spec.precision = static_cast<size_t>(std::max<int64_t>(number().value_or(0), 0));
    }
    const char kind = next();
    const Value value = named ? *named : take();
    append(kind, spec, value);
  }

  void append(char kind, const Spec& spec, const Value& value) {
    switch (kind) {
      case 's':
        return append_text(spec, context_.str(value));
      case 'r':
        return append_text(spec, context_.repr(value));
      case 'a':
        return append_text(spec, ascii(context_.repr(value)));
      case 'c':
        return pad(spec, character(value), ' ');
      case 'd':
      case 'i':
      case 'u':
        return append_number(spec, decimal(value, spec));
      case 'x':
      case 'X':
      case 'o':
        return append_number(spec, based(value, kind, spec));
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
        return append_number(spec, floating(value, kind, spec));
      default:
        throw Fault(fmt::format("%: the conversion '{}' is not supported", kind));
    }
  }

  static std::string character(const Value& value) {
    if (value.is(Kind::kText) && length_of(std::string_view(value.as_text())) == 1)
      return value.as_text();
    const int64_t code = int_of("%c", value);
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      throw Fault("%c: no character has that number");
    std::string out;
    append_utf8(static_cast<unsigned>(code), out);
    return out;
  }

  static std::string with_precision(std::string digits, const Spec& spec) {
    const size_t sign = digits.starts_with('-') ? 1 : 0;
    if (spec.precision && digits.size() - sign < *spec.precision)
      digits.insert(sign, *spec.precision - (digits.size() - sign), '0');
    return digits;
  }

  static std::string decimal(const Value& value, const Spec& spec) {
    if (!value.is_number()) refuse_type("%d", value);
    if (value.is_integer()) return with_precision(fmt::format("{}", value.as_int()), spec);
    const double whole = std::trunc(value.as_double());
    if (!(std::abs(whole) < 9.2e18)) throw Fault("%d: the number is too large");
    return with_precision(fmt::format("{}", static_cast<int64_t>(whole)), spec);
  }

  static std::string based(const Value& value, char kind, const Spec& spec) {
    const int64_t number = int_of("%x", value);
    std::string digits = digits_of(number, kind);
    digits = with_precision(std::move(digits), spec);
    if (spec.alternate) digits.insert(0, std::string("0") + kind);
    return (number < 0 ? "-" : "") + digits;
  }

  static std::string floating(const Value& value, char kind, const Spec& spec) {
    if (!value.is_number()) refuse_type("%f", value);
    return float_text(value.as_double(), kind, spec.precision.value_or(6), spec.alternate);
  }

  void append_text(const Spec& spec, std::string text) {
    if (spec.precision) text.resize(offset_of(text, *spec.precision));
    pad(spec, text, ' ');
  }

  void append_number(const Spec& spec, std::string digits) {
    if (!digits.starts_with('-') && (spec.plus || spec.space))
      digits.insert(0, spec.plus ? "+" : " ");
    if (spec.zeros && !spec.left && spec.width && digits.size() < *spec.width) {
      const size_t sign = digits[0] == '-' || digits[0] == '+' || digits[0] == ' ' ? 1 : 0;
      const size_t prefix =
          digits.size() > sign + 1 && digits[sign] == '0' &&
                  (digits[sign + 1] == 'x' || digits[sign + 1] == 'X' || digits[sign + 1] == 'o')
              ? 2
              : 0;
      digits.insert(sign + prefix, *spec.width - digits.size(), '0');
    }
    pad(spec, digits, ' ');
  }

  void pad(const Spec& spec, const std::string& text, char with) {
    const size_t length = length_of(std::string_view(text));
    const size_t missing = spec.width && *spec.width > length ? *spec.width - length : 0;
    context_.budget().spend_on(text.size() + missing);
    if (!spec.left) out_.append(missing, with);
    out_ += text;
    if (spec.left) out_.append(missing, with);
  }

  Context& context_;
  std::string_view format_;
  const Value& values_;
  size_t at_ = 0, used_ = 0;
  bool by_name_ = false;
  std::string out_;
};

}  // namespace

std::string percent_formatted(Context& context, const std::string& format, const Value& values) {
  return PercentFormatter(context, format, values).run();
}

}  // namespace ds::chat
