// `dslaunch top [RUN_DIR]`.
#pragma once

#include <string>

namespace ds {

class VerbApp;

struct TopOptions {
  std::string run = "runs/latest";
  int samples = 0;  // 0: until the run ends
  bool json = false;
};

void describe_top(VerbApp& app, TopOptions& values);

}  // namespace ds
