// `dslaunch explain train.json [KEY] [key=value ...]`: values and where they come from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds {

struct ExplainOptions {
  std::string config;
  std::optional<std::string> key;
  std::vector<std::string> overrides;
  int64_t num_ranks = 1;  // data-parallel ranks that complete the batch sizes
};

// Prints to standard output; returns 0, or 78 after printing when the file has errors (which go to
// standard error). Throws UsageError for an unknown key, ConfigError for a text that cannot be read
// at all.
int run_explain(const ExplainOptions& options);

}  // namespace ds
