// `dslaunch top [RUN_DIR]`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ds {

struct TopOptions {
  std::string run = "runs/latest";
  int samples = 0;  // 0: until the run ends
  bool json = false;
};

void describe_top(CLI::App& app, TopOptions& values);

}  // namespace ds
