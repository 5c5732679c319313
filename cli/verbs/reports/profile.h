// `dslaunch profile train.json`.
#pragma once

#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct ProfileArgs {
  std::string config_path;
  std::vector<std::string> overrides;  // key.path=value
  int ranks = 1;                       // of the job, which its batch sizes are for
  int threads = 0;                     // 0: all cores
  bool json = false;
};

void describe_profile(VerbApp& app, ProfileArgs& values);

}  // namespace ds
