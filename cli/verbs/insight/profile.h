// `dslaunch profile train.json`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ds {

struct ProfileArgs {
  std::string config_path;
  std::vector<std::string> overrides;  // key.path=value
  int ranks = 1;                       // of the job, which its batch sizes are for
  int threads = 0;                     // 0: all cores
  bool json = false;
};

void describe_profile(CLI::App& app, ProfileArgs& values);

}  // namespace ds
