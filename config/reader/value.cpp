#include "config/reader/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "config/reader/secret_keys.h"

namespace ds {

std::string Origin::text() const {
  if (!source) return "default";
  if (line == 0) return *source;
  return fmt::format("{}:{}:{}", *source, line, column);
}

Value::Value() = default;
Value::~Value() = default;
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;

Value Value::null(Origin origin) {
  Value v;
  v.origin_ = std::move(origin);
  return v;
}

Value Value::boolean(bool value, Origin origin) {
  Value v = null(std::move(origin));
  v.kind_ = Kind::kBoolean;
  v.integer_ = value ? 1 : 0;
  return v;
}

Value Value::integer(int64_t value, Origin origin) {
  Value v = null(std::move(origin));
  v.kind_ = Kind::kInteger;
  v.integer_ = value;
  return v;
}

Value Value::number(double value, Origin origin) {
  Value v = null(std::move(origin));
  v.kind_ = Kind::kNumber;
  v.number_ = value;
  return v;
}

Value Value::string(std::string value, Origin origin) {
  Value v = null(std::move(origin));
  v.kind_ = Kind::kString;
  v.text_ = std::move(value);
  return v;
}

Value Value::list() { return list({}, {}); }

Value Value::list(std::vector<Value> items, Origin origin) {
  Value v = null(std::move(origin));
  v.kind_ = Kind::kList;
  v.items_ = std::move(items);
  return v;
}

Value Value::object(Origin origin) {
  Value v = null(std::move(origin));
  v.kind_ = Kind::kObject;
  return v;
}

double Value::as_number() const {
  return kind_ == Kind::kInteger ? static_cast<double>(integer_) : number_;
}

const Member* Value::find_member(std::string_view key) const {
  for (const Member& member : members_) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

const Value* Value::find(std::string_view key) const {
  const Member* member = find_member(key);
  return member ? &member->value : nullptr;
}

Value* Value::find(std::string_view key) {
  const Member* member = find_member(key);
  return member ? &members_[static_cast<size_t>(member - members_.data())].value : nullptr;
}

Value& Value::set(std::string_view key, Value value) {
  if (Value* present = find(key)) return *present = std::move(value);
  Origin origin = value.origin();
  members_.push_back({std::string(key), std::move(value), std::move(origin)});
  return members_.back().value;
}

bool Value::erase(std::string_view key) {
  const Member* member = find_member(key);
  if (!member) return false;
  members_.erase(members_.begin() + (member - members_.data()));
  return true;
}

std::string_view Value::kind_name() const {
  switch (kind_) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return "a boolean";
    case Kind::kInteger:
      return "an integer";
    case Kind::kNumber:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kObject:
      return "an object";
  }
  return "?";
}

std::string Value::excerpt() const {
  constexpr size_t kLongest = 60;
  std::string text =
      to_compact_json(without_secrets(*this, Value::string(std::string(kKeptSecret))));
  if (text.size() <= kLongest) return text;
  size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return text.substr(0, cut) + "...";
}

bool same_content(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kNull:
      return true;
    case Value::Kind::kBoolean:
    case Value::Kind::kInteger:
      return a.as_integer() == b.as_integer();
    case Value::Kind::kNumber:
      return a.as_number() == b.as_number();
    case Value::Kind::kString:
      return a.as_string() == b.as_string();
    case Value::Kind::kList:
      return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                        same_content);
    case Value::Kind::kObject:
      return a.members().size() == b.members().size() &&
             std::all_of(a.members().begin(), a.members().end(), [&](const Member& member) {
               const Value* other = b.find(member.key);
               return other && same_content(member.value, *other);
             });
  }
  return false;
}

namespace {

enum class Layout { kIndented, kCompact };

// Own writer: Debian's RapidJSON offsets null pointers (undefined behaviour), and prints 17 digits.
class JsonWriter {
 public:
  explicit JsonWriter(Layout layout) : layout_(layout) {}
  std::string take() { return std::move(out_); }

  void write(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::kNull:
        out_ += "null";
        break;
      case Value::Kind::kBoolean:
        out_ += value.as_boolean() ? "true" : "false";
        break;
      case Value::Kind::kInteger:
        out_ += std::to_string(value.as_integer());
        break;
      case Value::Kind::kNumber:
        write_number(value.as_number());
        break;
      case Value::Kind::kString:
        write_string(value.as_string());
        break;
      case Value::Kind::kList:
        write_list(value);
        break;
      case Value::Kind::kObject:
        write_object(value);
        break;
    }
  }

 private:
  bool indented() const { return layout_ == Layout::kIndented; }

  // The shortest digits that read back to the same bits.
  void write_number(double number) {
    std::array<char, 32> buffer;
    const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
    const std::string text(buffer.data(), end);
    out_ += text;
    if (text.find_first_of(".e") == std::string::npos) out_ += ".0";
  }

  void write_string(const std::string& text) {
    out_ += '"';
    for (const char c : text) {
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        default:
          if (static_cast<unsigned char>(c) < 0x20) {
            out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
          } else {
            out_ += c;
          }
      }
    }
    out_ += '"';
  }

  void write_list(const Value& list) {
    out_ += '[';
    for (size_t i = 0; i < list.items().size(); ++i) {
      if (i > 0) out_ += indented() ? ", " : ",";
      write(list.items()[i]);
    }
    out_ += ']';
  }

  void write_object(const Value& object) {
    out_ += '{';
    ++depth_;
    for (size_t i = 0; i < object.members().size(); ++i) {
      if (i > 0) out_ += ',';
      new_line();
      write_string(object.members()[i].key);
      out_ += indented() ? ": " : ":";
      write(object.members()[i].value);
    }
    --depth_;
    if (!object.members().empty()) new_line();
    out_ += '}';
  }

  void new_line() {
    if (indented()) out_.append(1, '\n').append(2 * depth_, ' ');
  }

  Layout layout_;
  size_t depth_ = 0;
  std::string out_;
};

}  // namespace

std::string to_json(const Value& value) {
  JsonWriter writer(Layout::kIndented);
  writer.write(value);
  return writer.take() + "\n";
}

std::string to_compact_json(const Value& value) {
  JsonWriter writer(Layout::kCompact);
  writer.write(value);
  return writer.take();
}

Value without_secrets(const Value& value, const Value& instead) {
  Value out = value;
  if (out.is_string()) return Value::string(without_passwords(out.as_string()), out.origin());
  if (out.is_list()) {
    for (Value& item : out.items()) item = without_secrets(item, instead);
  } else if (out.is_object()) {
    for (Member& member : out.members()) {
      member.value = is_secret_key(member.key) ? instead : without_secrets(member.value, instead);
    }
  }
  return out;
}

}  // namespace ds
