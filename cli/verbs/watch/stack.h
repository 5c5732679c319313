// `dslaunch stack [RUN_DIR]`.
#pragma once

#include <string>

namespace ds {

class VerbApp;

struct StackOptions {
  std::string run = "runs/latest";
  bool json = false;
};

void describe_stack(VerbApp& app, StackOptions& values);

}  // namespace ds
