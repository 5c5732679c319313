#include "data/chat/run/text_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "data/chat/run/attributes.h"
#include "data/chat/run/methods.h"
#include "data/chat/run/operators.h"
#include "data/chat/syntax/literals.h"
#include "data/chat/value/characters.h"

namespace ds::chat {
namespace {

template <std::string (*kChange)(std::string_view)>
Value with_changed_letters(Context& context, const Value& self, const Arguments&) {
  const std::string text = context.str(self);
  context.budget().spend_on(4 * text.size());
  return self.is_markup() ? make_markup(&context.budget(), kChange(text))
                          : context.text(kChange(text));
}

Value trim(Context& context, const Value& self, const Arguments& arguments) {
  const std::string text = context.str(self);
  const bool plain = !arguments.has(0) || arguments[0].is(Kind::kNone);
  const std::string_view out = plain ? stripped(text, Side::kBoth)
                                     : stripped(text, text_of("trim", arguments[0]), Side::kBoth);
  return self.is_markup() ? make_markup(&context.budget(), std::string(out)) : context.text(out);
}

Value to_text(Context& context, const Value& self, const Arguments&) {
  return self.is(Kind::kText) ? self : context.text(context.str(self));
}

Value safe(Context& context, const Value& self, const Arguments&) {
  return make_markup(&context.budget(), context.str(self));
}

Value escape(Context& context, const Value& self, const Arguments&) {
  if (self.is_markup()) return self;
  return make_markup(&context.budget(), escaped(context.str(self)));
}

Value escape_again(Context& context, const Value& self, const Arguments&) {
  return make_markup(&context.budget(), escaped(context.str(self)));
}

Value replace_in(Context& context, const Value& self, const Arguments& arguments) {
  Arguments plain;
  for (size_t i = 0; i < 2; ++i)
    plain.positional.push_back(context.text(context.str(arguments[i])));
  if (arguments.has(2) && !arguments[2].is(Kind::kNone)) plain.positional.push_back(arguments[2]);
  const Value text = context.text(context.str(self));
  const Value method = attribute_of(context, text, "replace");
  return context.call(method, std::move(plain));
}

Value format_values(Context& context, const Value& self, const Arguments& arguments) {
  const std::string text = context.str(self);
  if (!arguments.named.empty() && !arguments.positional.empty())
    throw Fault("format: positional and named arguments stand together");
  if (arguments.named.empty())
    return context.text(percent_formatted(context, text, context.tuple(arguments.positional)));
  DictMaker names(&context.budget());
  for (const auto& [name, value] : arguments.named) names.set(context.text(name), value);
  return context.text(percent_formatted(context, text, names.finish()));
}

Value indent(Context& context, const Value& self, const Arguments& arguments) {
  const std::string& text = text_of("indent", self);
  std::string by(4, ' ');
  if (arguments.has(0))
    by = arguments[0].is(Kind::kText) ? arguments[0].as_text()
                                      : std::string(size_of("indent", arguments[0]), ' ');
  const bool first = arguments.has(1) && arguments[1].is_true();
  const bool blank = arguments.has(2) && arguments[2].is_true();
  const std::string closed = text + '\n';
  size_t lines = 0;
  for_each_line(closed, false, [&](std::string_view) { ++lines; });
  const size_t limit = context.budget().limits().bytes;
  if (by.size() > 0 && lines > limit / by.size()) context.budget().take(limit + 1);
  context.budget().spend_on(text.size() + lines * by.size());
  std::string out;
  bool begins = true;
  for_each_line(closed, false, [&](std::string_view line) {
    if (!begins) out += '\n';
    if (begins ? first : blank || !line.empty()) out += by;
    out += line;
    begins = false;
  });
  return self.is_markup() ? make_markup(&context.budget(), std::move(out))
                          : context.text(std::move(out));
}

Value truncate(Context& context, const Value& self, const Arguments& arguments) {
  const std::string& text = text_of("truncate", self);
  const int64_t length = arguments.has(0) ? int_of("truncate", arguments[0]) : 255;
  const bool inside_words = arguments.has(1) && arguments[1].is_true();
  const std::string end = arguments.has(2) ? text_of("truncate", arguments[2]) : "...";
  const bool has_leeway = arguments.has(3) && !arguments[3].is(Kind::kNone);
  const int64_t leeway = has_leeway ? int_of("truncate", arguments[3]) : 5;
  const auto end_length = static_cast<int64_t>(length_of(std::string_view(end)));
  if (length < end_length || leeway < 0) throw Fault("truncate: the length is too small");
  context.budget().spend_on(text.size());
  if (static_cast<int64_t>(length_of(std::string_view(text))) - leeway <= length) return self;
  std::string kept = text.substr(0, offset_of(text, static_cast<size_t>(length - end_length)));
  if (const size_t space = kept.rfind(' '); !inside_words && space != kept.npos) kept.resize(space);
  return context.text(kept + end);
}

Value word_count(Context& context, const Value& self, const Arguments&) {
  int64_t words = 0;
  bool inside = false;
  for (const char32_t c : characters_of(context.str(self))) {
    if (is_word(c) && !inside) ++words;
    inside = is_word(c);
  }
  return Value(words);
}

Value center(Context& context, const Value& self, const Arguments& arguments) {
  const Value text = context.text(context.str(self));
  const Value width = arguments.has(0) ? arguments[0] : Value(int64_t{80});
  return context.call(attribute_of(context, text, "center"), {{width}, {}});
}

Value default_of(Context&, const Value& self, const Arguments& arguments) {
  const bool falsy_too = arguments.has(1) && arguments[1].is_true();
  if (!self.is(Kind::kUndefined) && !(falsy_too && !self.is_true())) return self;
  return arguments.has(0) ? arguments[0] : make_text(nullptr, "");
}

std::optional<Value> whole_number(const Value& self) {
  if (self.is_integer()) return Value(self.as_int());
  if (!self.is(Kind::kFloat)) return std::nullopt;
  const double whole = std::trunc(self.as_double());
  if (std::isnan(whole) || std::isinf(whole)) return std::nullopt;
  if (std::abs(whole) >= 9.2e18)
    throw Fault("int: the number has more than 64 bits, which are not supported");
  return Value(static_cast<int64_t>(whole));
}

Value to_int(Context&, const Value& self, const Arguments& arguments) {
  if (self.is(Kind::kUndefined)) throw Fault(self.undefined_message());
  const Value otherwise = arguments.has(0) ? arguments[0] : Value(int64_t{0});
  if (!self.is(Kind::kText)) {
    if (self.is(Kind::kFloat) && std::isinf(self.as_double()))
      throw Fault("int: infinity is no integer");
    return whole_number(self).value_or(otherwise);
  }
  const int64_t base = arguments.has(1) ? int_of("int", arguments[1]) : 10;
  const bool possible = base == 0 || (base >= 2 && base <= 36);
  if (possible) {
    if (const auto number = parsed_int(self.as_text(), static_cast<int>(base)))
      return Value(*number);
  }
  const auto number = parsed_float(self.as_text());
  return number ? whole_number(Value(*number)).value_or(otherwise) : otherwise;
}

Value to_float(Context&, const Value& self, const Arguments& arguments) {
  if (self.is(Kind::kUndefined)) throw Fault(self.undefined_message());
  const Value otherwise = arguments.has(0) ? arguments[0] : Value(0.0);
  if (self.is_number()) return Value(self.as_double());
  if (!self.is(Kind::kText)) return otherwise;
  const auto number = parsed_float(self.as_text());
  return number ? Value(*number) : otherwise;
}

Value absolute(Context&, const Value& self, const Arguments&) {
  if (self.is(Kind::kFloat)) return Value(std::abs(self.as_double()));
  if (!self.is_integer()) refuse_type("abs", self);
  return self.as_int() < 0 ? negated(self) : Value(self.as_int());
}

// An integer to a power of ten, halves to the even one.
int64_t rounded_integer(int64_t value, int64_t digits) {
  constexpr int64_t kHalfOfLargestUnit = 5'000'000'000'000'000'000;  // of 10 to the power of 19
  const auto fault = [] {
    return Fault("round: the number has more than 64 bits, which are not supported");
  };
  if (digits > 19) return 0;
  if (digits == 19) {
    if (value > kHalfOfLargestUnit || value < -kHalfOfLargestUnit) throw fault();
    return 0;
  }
  int64_t unit = 1;
  for (int64_t i = 0; i < digits; ++i) unit *= 10;
  const int64_t rest = std::abs(value % unit);
  int64_t units = value / unit;
  if (rest * 2 > unit || (rest * 2 == unit && units % 2 != 0)) units += value < 0 ? -1 : 1;
  int64_t out = 0;
  if (__builtin_mul_overflow(units, unit, &out)) throw fault();
  return out;
}

double rounded_float(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < -308) return std::copysign(0.0, value);
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  // The decimal text is rounded exactly.
  return std::strtod(fmt::format("{:.{}f}", value, precision).c_str(), nullptr);
}

Value round(Context&, const Value& self, const Arguments& arguments) {
  const int64_t precision = arguments.has(0) ? int_of("round", arguments[0]) : 0;
  const std::string method = arguments.has(1) ? text_of("round", arguments[1]) : "common";
  if (!self.is_number()) refuse_type("round", self);
  if (method == "common") {
    if (self.is_integer())
      return precision >= 0
                 ? Value(self.as_int())
                 : Value(rounded_integer(self.as_int(), -std::max<int64_t>(precision, -20)));
    return Value(rounded_float(self.as_double(), precision));
  }
  if (method != "ceil" && method != "floor")
    throw Fault("round: the method is common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.as_double() * unit;
  if (!std::isfinite(scaled)) throw Fault("round: the number is too large");
  if (unit == 0) throw Fault("round: the precision is too small");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value attribute(Context& context, const Value& self, const Arguments& arguments) {
  const std::string& name = text_of("attr", arguments[0]);
  if (self.is(Kind::kDict) && find_method(Kind::kDict, name) == nullptr)
    return context.undefined(fmt::format("'dict object' has no attribute '{}'", name));
  return attribute_of(context, self, name);
}

JsonStyle json_style(const Arguments& arguments) {
  JsonStyle style;
  style.ascii = arguments.has(0) && arguments[0].is_true();
  const Value& indent = arguments[1];
  if (indent.given() && !indent.is(Kind::kNone)) {
    style.between = ",";
    style.indent = indent.is(Kind::kText)
                       ? indent.as_text()
                       : std::string(std::min<size_t>(size_of("tojson", indent), 1024), ' ');
  }
  if (arguments.has(2) && !arguments[2].is(Kind::kNone)) {
    if (!arguments[2].is_sequence() || arguments[2].items().size() != 2)
      throw Fault("tojson: separators are two texts");
    style.between = text_of("tojson", arguments[2].items()[0]);
    style.behind_key = text_of("tojson", arguments[2].items()[1]);
  }
  style.sorted = arguments.has(3) && arguments[3].is_true();
  return style;
}

Value json(Context& context, const Value& self, const Arguments& arguments) {
  return context.text(to_json(context.budget(), self, json_style(arguments)));
}

constexpr std::array kTextFilters{
    Native{"abs", "", absolute},
    Native{"attr", "name", attribute},
    Native{"capitalize", "", with_changed_letters<capitalized>},
    Native{"center", "width=", center},
    Native{"d", "default_value=,boolean=", default_of},
    Native{"default", "default_value=,boolean=", default_of},
    Native{"e", "", escape},
    Native{"escape", "", escape},
    Native{"float", "default=", to_float},
    Native{"forceescape", "", escape_again},
    Native{"format", "...", format_values},
    Native{"indent", "width=,first=,blank=", indent},
    Native{"int", "default=,base=", to_int},
    Native{"lower", "", with_changed_letters<lower>},
    Native{"replace", "old,new,count=", replace_in},
    Native{"round", "precision=,method=", round},
    Native{"safe", "", safe},
    Native{"string", "", to_text},
    Native{"title", "", with_changed_letters<word_titled>},
    Native{"tojson", "ensure_ascii=,indent=,separators=,sort_keys=", json},
    Native{"trim", "chars=", trim},
    Native{"truncate", "length=,killwords=,end=,leeway=", truncate},
    Native{"upper", "", with_changed_letters<upper>},
    Native{"wordcount", "", word_count},
};

}  // namespace

std::span<const Native> text_filters() { return kTextFilters; }

}  // namespace ds::chat
