// `dslaunch ctl ORDER [RUN_DIR]`.
#pragma once

#include <string>

namespace ds {

class VerbApp;

struct CtlOptions {
  std::string order;  // save, stop, pause, resume, join
  std::string run = "runs/latest";
  bool json = false;
};

void describe_ctl(VerbApp& app, CtlOptions& values);

}  // namespace ds
