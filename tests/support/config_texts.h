// What the reader of configurations makes of a text: its document as compact JSON, or its error.
#pragma once

#include <string>
#include <string_view>

#include "config/reader/json_reader.h"
#include "core/error.h"

namespace ds::test {

inline std::string json_of(std::string_view text) {
  return to_compact_json(read_config_document(text, "t"));
}

// Empty where there is none.
inline std::string config_error_of(std::string_view text) {
  try {
    read_config_document(text, "t");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace ds::test
