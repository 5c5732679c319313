// What the reader of configurations makes of a text: its document as compact JSON, its error, or
// what is said of it.
#pragma once

#include <string>
#include <string_view>

#include "config/available.h"
#include "config/load.h"
#include "config/reader/json_reader.h"
#include "core/status/error.h"

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

// "path: message", one a line, of that severity, by all who look before anything starts.
inline std::string problems_of(const std::string& text, Severity severity) {
  ReadConfig read = read_config_text(text, "f");
  check_available(read.config, read.origins, read.problems);
  std::string found;
  for (const Problem& problem : read.problems.all()) {
    if (problem.severity == severity) found += problem.path + ": " + problem.message + "\n";
  }
  return found;
}

}  // namespace ds::test
