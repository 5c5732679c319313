// `dslaunch check train.json [key=value ...]`: everything that is wrong with a configuration, at
// once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds {

struct CheckOptions {
  std::string config;                  // path, or base64 of the text
  std::vector<std::string> overrides;  // key.path=value, +key.path=value, ~key.path
  std::optional<int64_t> num_ranks;    // also checks the batch sizes for that many ranks
};

struct CheckReport {
  std::string text;   // one problem a line, then a summary line
  int exit_code = 0;  // 0, or 78 when there are errors
};

// Never throws for what the file says. Throws InputMissing when there is no such file.
CheckReport check_config(const CheckOptions& options);

// Prints the report to standard output; returns the exit code.
int run_check(const CheckOptions& options);

}  // namespace ds
