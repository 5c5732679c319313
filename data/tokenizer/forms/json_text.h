// Writes a tokenizer.json, part by part.
#pragma once

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ds {

class JsonText {
 public:
  using Writer = rapidjson::Writer<rapidjson::StringBuffer>;
  Writer& out() { return out_; }
  void text(const char* key, std::string_view value) {
    out_.Key(key);
    string(value);
  }
  void string(std::string_view value) {
    out_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
  }
  void flag(const char* key, bool value) {
    out_.Key(key);
    out_.Bool(value);
  }
  void integer(const char* key, int64_t value) {
    out_.Key(key);
    out_.Int64(value);
  }
  void begin(const char* key, const char* type) {
    out_.Key(key);
    out_.StartObject();
    text("type", type);
  }
  std::string finish() {
    out_.EndObject();
    return {buffer_.GetString(), buffer_.GetSize()};
  }

 private:
  rapidjson::StringBuffer buffer_;
  Writer out_{buffer_};
};

}  // namespace ds
