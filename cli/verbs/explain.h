// `dslaunch explain train.json [KEY] [key=value ...]`, or `dslaunch explain KEY [key=value ...]`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct ExplainOptions {
  std::string config;              // a file; where there is none of that name, a key
  std::vector<std::string> words;  // as they are typed; sorted into the two that follow
  std::optional<std::string> key;
  std::vector<std::string> overrides;
  int64_t num_ranks = 1;  // data-parallel ranks that complete the batch sizes
  bool json = false;      // {"values": [{"path", "value", "origin"}, ...], "keys", "errors"}
};

void describe_explain(VerbApp& app, ExplainOptions& values);

}  // namespace ds
