#include "config/value.h"

#include <fmt/format.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

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
  std::string text = to_compact_json(*this);
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

template <class Writer>
void write_number(double number, Writer& writer) {
  // RapidJSON prints 17 digits at most but not the shortest form; to_chars does.
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  writer.RawValue(text.data(), text.size(), rapidjson::kNumberType);
}

template <class Writer>
void write(const Value& value, Writer& writer) {
  switch (value.kind()) {
    case Value::Kind::kNull:
      writer.Null();
      break;
    case Value::Kind::kBoolean:
      writer.Bool(value.as_boolean());
      break;
    case Value::Kind::kInteger:
      writer.Int64(value.as_integer());
      break;
    case Value::Kind::kNumber:
      write_number(value.as_number(), writer);
      break;
    case Value::Kind::kString:
      writer.String(value.as_string().data(),
                    static_cast<rapidjson::SizeType>(value.as_string().size()));
      break;
    case Value::Kind::kList:
      writer.StartArray();
      for (const Value& item : value.items()) write(item, writer);
      writer.EndArray();
      break;
    case Value::Kind::kObject:
      writer.StartObject();
      for (const Member& member : value.members()) {
        writer.Key(member.key.data(), static_cast<rapidjson::SizeType>(member.key.size()));
        write(member.value, writer);
      }
      writer.EndObject();
      break;
  }
}

}  // namespace

std::string to_json(const Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 2);
  writer.SetFormatOptions(rapidjson::kFormatSingleLineArray);
  write(value, writer);
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

std::string to_compact_json(const Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  write(value, writer);
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace ds
