// `dslaunch check train.json [key=value ...]`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct CheckOptions {
  std::string config;                    // path, or base64 of the text, or a folder
  std::vector<std::string> overrides{};  // key.path=value, +key.path=value, ~key.path
  std::optional<int64_t> num_ranks{};    // also checks the batch sizes for that many ranks
  bool json = false;                     // for programs
};

void describe_check(VerbApp& app, CheckOptions& values);

}  // namespace ds
