// Checked access to JSON values, and number texts.
#include "tests/conform/json_io.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace ds::conform {

const Json* find(const Json& object, const char* key) {
  if (!object.IsObject()) throw std::invalid_argument(fmt::format("'{}': not in an object", key));
  const auto member = object.FindMember(key);
  return member == object.MemberEnd() || member->value.IsNull() ? nullptr : &member->value;
}

const Json& need(const Json& object, const char* key) {
  const Json* value = find(object, key);
  if (!value) throw std::invalid_argument(fmt::format("input: '{}' is missing", key));
  return *value;
}

const Json& array(const Json& value) {
  if (!value.IsArray()) throw std::invalid_argument("input: a list is expected");
  return value;
}

int64_t as_int(const Json& value) {
  if (value.IsInt64()) return value.GetInt64();
  if (value.IsDouble() && value.GetDouble() == std::floor(value.GetDouble()) &&
      std::abs(value.GetDouble()) < 9e15) {
    return static_cast<int64_t>(value.GetDouble());
  }
  throw std::invalid_argument("input: a whole number is expected");
}

double as_double(const Json& value) {
  if (value.IsNumber()) return value.GetDouble();
  if (value.IsString()) {
    const std::string_view text = value.GetString();
    if (text == "nan") return std::nan("");
    if (text == "inf") return INFINITY;
    if (text == "-inf") return -INFINITY;
  }
  throw std::invalid_argument("input: a number is expected");
}

bool as_bool(const Json& value) {
  if (!value.IsBool()) throw std::invalid_argument("input: true or false is expected");
  return value.GetBool();
}

std::string as_text(const Json& value) {
  if (!value.IsString()) throw std::invalid_argument("input: a text is expected");
  return {value.GetString(), value.GetStringLength()};
}

void Answer::write_double(double value) {
  if (std::isnan(value)) return write_text("nan");
  if (std::isinf(value)) return write_text(value > 0 ? "inf" : "-inf");
  writer_.Double(value);
}

}  // namespace ds::conform
