// `dslaunch tail [RUN_DIR]`.
#pragma once

#include <optional>
#include <string>

namespace ds {

class VerbApp;

struct TailOptions {
  std::string run = "runs/latest";
  std::optional<int> rank;
  int lines = 20;
  bool follow = false;
  bool json = false;
};

void describe_tail(VerbApp& app, TailOptions& values);

}  // namespace ds
