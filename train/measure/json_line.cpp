#include "train/measure/json_line.h"

#include "core/values/index.h"

namespace ds {

void JsonLine::name(std::string_view key) {
  writer_.Key(key.data(), narrow<rapidjson::SizeType>(key.size()));
}

JsonLine& JsonLine::begin(std::string_view key) {
  name(key);
  writer_.StartObject();
  return *this;
}

JsonLine& JsonLine::end() {
  writer_.EndObject();
  return *this;
}

JsonLine& JsonLine::text(std::string_view key, std::string_view value) {
  name(key);
  writer_.String(value.data(), narrow<rapidjson::SizeType>(value.size()));
  return *this;
}

JsonLine& JsonLine::text_or_null(std::string_view key, const std::optional<std::string>& value) {
  return value ? text(key, std::string_view(*value)) : null(key);
}

JsonLine& JsonLine::integer(std::string_view key, int64_t value) {
  name(key);
  writer_.Int64(value);
  return *this;
}

JsonLine& JsonLine::real(std::string_view key, double value) {
  name(key);
  writer_.Double(value);
  return *this;
}

JsonLine& JsonLine::boolean(std::string_view key, bool value) {
  name(key);
  writer_.Bool(value);
  return *this;
}

JsonLine& JsonLine::null(std::string_view key) {
  name(key);
  writer_.Null();
  return *this;
}

JsonLine& JsonLine::texts(std::string_view key, const std::vector<std::string>& values) {
  name(key);
  writer_.StartArray();
  for (const std::string& value : values) {
    writer_.String(value.data(), narrow<rapidjson::SizeType>(value.size()));
  }
  writer_.EndArray();
  return *this;
}

JsonLine& JsonLine::raw(std::string_view key, std::string_view value) {
  name(key);
  writer_.RawValue(value.data(), value.size(), rapidjson::kNumberType);
  return *this;
}

void JsonLine::flush(std::string& to) {
  writer_.EndObject();
  to.append(buffer_.GetString(), buffer_.GetSize()).push_back('\n');
  buffer_.Clear();
  writer_.Reset(buffer_);
  writer_.StartObject();
}

std::string JsonLine::take_object() {
  writer_.EndObject();
  return {buffer_.GetString(), buffer_.GetSize()};
}

std::string JsonLine::take() { return take_object() + "\n"; }

std::string json_number_or_nan(double value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteNanAndInfFlag>
      writer(buffer);
  writer.Double(value);
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace ds
