// `dslaunch ctl ORDER [RUN_DIR]`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ds {

struct CtlOptions {
  std::string order;  // save, stop, pause, resume, join
  std::string run = "runs/latest";
  bool json = false;
};

void describe_ctl(CLI::App& app, CtlOptions& values);

}  // namespace ds
