// `dslaunch check train.json [key=value ...]`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ds {

struct CheckOptions {
  std::string config;                  // path, or base64 of the text
  std::vector<std::string> overrides;  // key.path=value, +key.path=value, ~key.path
  std::optional<int64_t> num_ranks;    // also checks the batch sizes for that many ranks
  bool json = false;                   // for programs
};

void describe_check(CLI::App& app, CheckOptions& values);

}  // namespace ds
