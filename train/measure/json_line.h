// One JSON object on one line, for formats that are made of such lines.
#pragma once

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

// Numbers that are not finite are NaN, Infinity and -Infinity, as Python reads and writes them.
class JsonLine {
 public:
  JsonLine() { writer_.StartObject(); }
  JsonLine& begin(std::string_view key);  // an object inside
  JsonLine& end();
  JsonLine& text(std::string_view key, std::string_view value);
  JsonLine& text_or_null(std::string_view key, const std::optional<std::string>& value);
  JsonLine& integer(std::string_view key, int64_t value);
  JsonLine& real(std::string_view key, double value);
  JsonLine& boolean(std::string_view key, bool value);
  JsonLine& null(std::string_view key);
  JsonLine& texts(std::string_view key, const std::vector<std::string>& values);  // a list
  // `value` is JSON already, and is not empty.
  JsonLine& raw(std::string_view key, std::string_view value);
  // Closes the object, adds it to `to` with a line feed, and begins the next one: of many lines
  // those behind the first take no memory.
  void flush(std::string& to);
  std::string take();         // closes the object; with a line feed
  std::string take_object();  // without one, to stand in another text

 private:
  void name(std::string_view key);

  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>,
                    rapidjson::CrtAllocator, rapidjson::kWriteNanAndInfFlag>
      writer_{buffer_};
};

// A number as JsonLine has it.
std::string json_number_or_nan(double value);

}  // namespace ds
