// `dslaunch plan train.json`.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ds {

struct PlanArgs {
  std::string config_path;
  std::vector<std::string> overrides;  // key.path=value
  std::optional<int> num_ranks;        // none: those that `run` would use, 1 to the engine alone
  int threads = 1;                     // per rank
  std::string device = "cpu";          // cpu, cuda: there need be no GPU
  bool json = false;
  // Sizes, "80GiB": with the first the question is which model is the largest that fits.
  std::optional<std::string> device_memory, host_memory, nvme;
};

void describe_plan(CLI::App& app, PlanArgs& values);

}  // namespace ds
