// JSON written, never read: objects and arrays of a few fields for the files of the run directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/values/step_metrics.h"

namespace ds {

std::string json_string(std::string_view text);  // quoted and escaped
std::string json_number(double value);           // shortest exact form; null for NaN and infinities

class JsonObject {
 public:
  JsonObject& text(std::string_view key, std::string_view value) {
    return raw(key, json_string(value));
  }
  JsonObject& number(std::string_view key, double value) { return raw(key, json_number(value)); }
  JsonObject& number(std::string_view key, std::optional<double> value) {
    return raw(key, value ? json_number(*value) : "null");
  }
  JsonObject& integer(std::string_view key, int64_t value) {
    return raw(key, std::to_string(value));
  }
  // As its row says; null where it is absent.
  JsonObject& metric(const MetricRow& row, std::optional<double> value) {
    return value && is_whole(row.unit) ? integer(row.name, whole_value(*value))
                                       : number(row.name, value);
  }
  // `json` is already JSON.
  JsonObject& raw(std::string_view key, std::string_view json) {
    text_ += text_.size() == 1 ? "" : ", ";
    text_ += json_string(key) + ": ";
    text_ += json;
    return *this;
  }
  std::string str() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

}  // namespace ds
