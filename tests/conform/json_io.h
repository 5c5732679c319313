// Reading a case's input and writing its answer: thin words over RapidJSON, nothing about any area.
#pragma once

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace ds::conform {

using Json = rapidjson::Value;

// The member `key`, or nullptr when it is absent or null.
const Json* find(const Json& object, const char* key);
// The member `key`; throws std::invalid_argument when it is absent or null.
const Json& need(const Json& object, const char* key);
const Json& array(const Json& value);  // throws unless a list

int64_t as_int(const Json& value);
double as_double(const Json& value);
bool as_bool(const Json& value);
std::string as_text(const Json& value);

template <class T>
T as(const Json& value) {
  if constexpr (std::same_as<T, bool>) {
    return as_bool(value);
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(as_int(value));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(as_double(value));
  } else {
    return T(as_text(value));
  }
}
template <class T>
T get(const Json& object, const char* key) {
  return as<T>(need(object, key));
}
template <class T>
T get_or(const Json& object, const char* key, T fallback) {
  const Json* value = find(object, key);
  return value ? as<T>(*value) : fallback;
}
template <class T>
std::optional<T> get_optional(const Json& object, const char* key) {
  const Json* value = find(object, key);
  return value ? std::optional<T>(as<T>(*value)) : std::nullopt;
}

// A list of T at one depth; `flatten` takes a number or lists of lists at any depth.
template <class T>
std::vector<T> list(const Json& value) {
  std::vector<T> out;
  for (const Json& entry : array(value).GetArray()) out.push_back(as<T>(entry));
  return out;
}
template <class T>
void flatten_into(const Json& value, std::vector<T>& out) {
  if (!value.IsArray()) {
    out.push_back(as<T>(value));
    return;
  }
  for (const Json& entry : value.GetArray()) flatten_into(entry, out);
}
template <class T>
std::vector<T> flatten(const Json& value) {
  std::vector<T> out;
  flatten_into(value, out);
  return out;
}

// Builds {"key": value, ...}. Not-a-number and infinities become the texts "nan", "inf", "-inf".
class Answer {
 public:
  Answer() : writer_(buffer_) { writer_.StartObject(); }

  template <class T>
  Answer& add(std::string_view key, const T& value) {
    writer_.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
    write(value);
    return *this;
  }
  std::string text() {
    writer_.EndObject();
    return {buffer_.GetString(), buffer_.GetSize()};
  }

 private:
  void write_text(std::string_view text) {
    writer_.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
  }
  void write_double(double value);

  template <class T>
  void write(const T& value) {
    if constexpr (std::convertible_to<T, std::string_view>) {
      write_text(value);
    } else if constexpr (std::same_as<T, bool>) {
      writer_.Bool(value);
    } else if constexpr (std::unsigned_integral<T>) {
      writer_.Uint64(value);
    } else if constexpr (std::integral<T>) {
      writer_.Int64(value);
    } else if constexpr (std::floating_point<T>) {
      write_double(static_cast<double>(value));
    } else if constexpr (std::ranges::range<T>) {
      writer_.StartArray();
      for (const auto& entry : value) write(entry);
      writer_.EndArray();
    } else if constexpr (std::same_as<T, std::nullopt_t>) {
      writer_.Null();
    } else {  // a pair: a list of two
      writer_.StartArray();
      write(value.first);
      write(value.second);
      writer_.EndArray();
    }
  }

  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_;
};

}  // namespace ds::conform
