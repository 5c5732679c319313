// `dslaunch look-at-data train.json`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct LookAtDataArgs {
  std::string config_path;
  std::vector<std::string> overrides;  // key.path=value
  int64_t count = 3;                   // samples
  int64_t sample = 0;                  // the first of them
  bool validation = false;             // those that the run evaluates with
  bool json = false;
};

void describe_look_at_data(VerbApp& app, LookAtDataArgs& values);

}  // namespace ds
