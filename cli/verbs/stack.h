// `dslaunch stack [RUN_DIR]`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ds {

struct StackOptions {
  std::string run = "runs/latest";
  bool json = false;
};

void describe_stack(CLI::App& app, StackOptions& values);

}  // namespace ds
