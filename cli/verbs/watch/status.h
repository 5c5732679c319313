// `dslaunch status [RUN_DIR]`.
#pragma once

#include <string>

namespace ds {

class VerbApp;

struct StatusOptions {
  std::string run = "runs/latest";
  bool json = false;
  bool prometheus = false;
};

void describe_status(VerbApp& app, StatusOptions& values);

}  // namespace ds
