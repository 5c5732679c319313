// `dslaunch explain train.json [KEY] [key=value ...]`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ds {

struct ExplainOptions {
  std::string config;
  std::vector<std::string> words;  // as they are typed; sorted into the two that follow
  std::optional<std::string> key;
  std::vector<std::string> overrides;
  int64_t num_ranks = 1;  // data-parallel ranks that complete the batch sizes
  bool json = false;      // {"values": [{"path", "value", "origin"}, ...], "errors": [...]}
};

void describe_explain(CLI::App& app, ExplainOptions& values);

}  // namespace ds
