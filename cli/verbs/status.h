// `dslaunch status [RUN_DIR]`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ds {

struct StatusOptions {
  std::string run = "runs/latest";
  bool json = false;
  bool prometheus = false;
};

void describe_status(CLI::App& app, StatusOptions& values);

}  // namespace ds
