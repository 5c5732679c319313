#include "data/chat/value/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "data/chat/value/characters.h"
#include "data/chat/value/value_compare.h"
#include "data/chat/value/value_objects.h"

namespace ds::chat {
namespace {

void append_repr(Budget& budget, const Value& value, int depth, std::string& out);

// What is printed counts while it grows: values may hold one another many times over.
void check_size(Budget& budget, const std::string& out) {
  if (out.size() > budget.limits().bytes) budget.take(out.size());
}

void append_view(Budget& budget, const View& view, int depth, std::string& out) {
  constexpr std::array kNames{"dict_keys([", "dict_values([", "dict_items(["};
  out += kNames[static_cast<size_t>(view.part)];
  bool first = true;
  for (const auto& [key, value] : view.dict->items) {
    if (!std::exchange(first, false)) out += ", ";
    if (view.part == View::Part::kItems) out += '(';
    if (view.part != View::Part::kValues) append_repr(budget, key, depth, out);
    if (view.part == View::Part::kItems) out += ", ";
    if (view.part != View::Part::kKeys) append_repr(budget, value, depth, out);
    if (view.part == View::Part::kItems) out += ')';
  }
  out += "])";
}

template <class Entries>
void append_entries(Budget& budget, const Entries& entries, int depth, std::string& out) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : entries) {
    if (!std::exchange(first, false)) out += ", ";
    if constexpr (std::is_same_v<std::decay_t<decltype(key)>, std::string>) {
      out += repr_of_text(key);
    } else {
      append_repr(budget, key, depth, out);
    }
    out += ": ";
    append_repr(budget, value, depth, out);
    check_size(budget, out);
  }
  out += '}';
}

void append_items(Budget& budget, const Value& value, int depth, std::string& out) {
  const bool tuple = value.is(Kind::kTuple);
  out += tuple ? '(' : '[';
  bool first = true;
  for (const Value& item : value.items()) {
    if (!std::exchange(first, false)) out += ", ";
    append_repr(budget, item, depth, out);
    check_size(budget, out);
  }
  if (tuple && value.items().size() == 1) out += ',';
  out += tuple ? ')' : ']';
}

// Values deeper than this are those of a namespace that lies in itself.
constexpr int kDeepestPrinted = 600;

void append_repr(Budget& budget, const Value& value, int depth, std::string& out) {
  budget.spend(1);
  if (depth > kDeepestPrinted) throw Fault("the value holds itself, and so has no text");
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      return;
    case Kind::kText:
      budget.spend_on(value.as_text().size());
      if (value.is_markup()) out += "Markup(";
      out += repr_of_text(value.as_text());
      if (value.is_markup()) out += ')';
      return check_size(budget, out);
    case Kind::kList:
    case Kind::kTuple:
      return append_items(budget, value, depth + 1, out);
    case Kind::kDict:
      return append_entries(budget, value.as_dict().items, depth + 1, out);
    case Kind::kView:
      return append_view(budget, value.as_view(), depth + 1, out);
    case Kind::kNamespace:
      out += "<Namespace ";
      append_entries(budget, value.shared<Namespace>()->names, depth + 1, out);
      out += '>';
      return;
    default:
      out += to_str(budget, value);
  }
}

std::string str_of_loop(Loop& loop) {
  return fmt::format("<LoopContext {}/{}>", loop.index0 + 1, loop.count());
}

void append_json_text(std::string_view text, bool ascii, std::string& out) {
  out += '"';
  const auto unit = [&](unsigned code) { out += fmt::format("\\u{:04x}", code); };
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = first_character(text.substr(at));
    const std::string_view bytes = text.substr(at, c.length);
    at += c.length;
    switch (c.code) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (c.code < 0x20 || (ascii && c.code >= 0x7F && c.code < 0x10000)) {
          unit(c.code);
        } else if (ascii && c.code >= 0x10000) {
          unit(0xD800 + ((c.code - 0x10000) >> 10));
          unit(0xDC00 + ((c.code - 0x10000) & 0x3FF));
        } else {
          out += bytes;
        }
    }
  }
  out += '"';
}

class JsonPrinter {
 public:
  JsonPrinter(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  void append(const Value& value, int level) {
    budget_.spend(1);
    check_size(budget_, out_);
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += fmt::format("{}", value.as_int());
        return;
      case Kind::kFloat:
        out_ += number(value.as_double());
        return;
      case Kind::kText:
        budget_.spend_on(value.as_text().size());
        return append_json_text(value.as_text(), style_.ascii, out_);
      case Kind::kList:
      case Kind::kTuple:
        return append_list(value.items(), level);
      case Kind::kDict:
        return append_dict(value.as_dict(), level);
      default:
        throw Fault(fmt::format("tojson: an object of type '{}' is no JSON", value.type_name()));
    }
  }
  std::string take() { return std::move(out_); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return repr_of_float(value);
  }

  void begin_line(int level) {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void append_list(const Values& items, int level) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.between;
      begin_line(level + 1);
      append(items[i], level + 1);
    }
    if (!items.empty()) begin_line(level);
    out_ += ']';
  }

  void append_key(const Value& key) {
    if (key.is(Kind::kText)) return append_json_text(key.as_text(), style_.ascii, out_);
    if (!key.is_number() && !key.is(Kind::kNone))
      throw Fault(fmt::format("tojson: a key of type '{}' is no JSON", key.type_name()));
    out_ += '"';
    append(key, 0);
    out_ += '"';
  }

  void append_dict(const Dict& dict, int level) {
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sorted) {
      std::ranges::stable_sort(
          items, [&](const auto* a, const auto* b) { return less(&budget_, a->first, b->first); });
    }
    out_ += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.between;
      begin_line(level + 1);
      append_key(items[i]->first);
      out_ += style_.behind_key;
      append(items[i]->second, level + 1);
    }
    if (!items.empty()) begin_line(level);
    out_ += '}';
  }

  Budget& budget_;
  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string to_str(Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Kind::kAbsent:
    case Kind::kUndefined:
      return "";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.as_bool() ? "True" : "False";
    case Kind::kInt:
      return fmt::format("{}", value.as_int());
    case Kind::kFloat:
      return repr_of_float(value.as_double());
    case Kind::kText:
      budget.spend_on(value.as_text().size());
      return value.as_text();
    case Kind::kRange: {
      const Range& range = value.as_range();
      const std::string step = range.step == 1 ? "" : fmt::format(", {}", range.step);
      return fmt::format("range({}, {}{})", range.start, range.stop, step);
    }
    case Kind::kLoop:
      return str_of_loop(*value.shared<Loop>());
    case Kind::kMacro: {
      const std::string& name = value.shared<const Macro>()->name;
      return name.empty() ? "<Macro anonymous>" : fmt::format("<Macro {}>", repr_of_text(name));
    }
    case Kind::kIterator:
    case Kind::kFunction:
      throw Fault(
          fmt::format("a '{}' has no text; did you mean to add |list or ()?", value.type_name()));
    default:
      return to_repr(budget, value);
  }
}

std::string to_repr(Budget& budget, const Value& value) {
  std::string out;
  append_repr(budget, value, 0, out);
  return out;
}

std::string repr_of_text(std::string_view text) {
  const bool doubled = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Utf8Character c = first_character(text.substr(at));
    if (c.code == '\\' || c.code == static_cast<unsigned char>(quote)) {
      out += '\\';
      out += text[at];
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (is_printable(c.code)) {
      out += text.substr(at, c.length);
    } else if (c.code < 0x100) {
      out += fmt::format("\\x{:02x}", c.code);
    } else {
      out += c.code < 0x10000 ? fmt::format("\\u{:04x}", c.code) : fmt::format("\\U{:08x}", c.code);
    }
    at += c.length;
  }
  return out + quote;
}

std::string repr_of_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::scientific)
                       .ptr;
  std::string digits(buffer.data(), end);
  const size_t e = digits.find('e');
  const int exponent = std::stoi(digits.substr(e + 1));
  digits.resize(e);
  std::string sign;
  if (digits.front() == '-') sign = "-", digits.erase(0, 1);
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}{}e{}{:02}", sign, digits, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  std::erase(digits, '.');
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string to_json(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(budget, style);
  printer.append(value, 0);
  return printer.take();
}

}  // namespace ds::chat
