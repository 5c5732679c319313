// `dslaunch plan train.json`.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct PlanArgs {
  std::string config_path;
  std::vector<std::string> overrides;  // key.path=value
  std::optional<int> num_ranks;        // none: those that `run` would use, 1 to the engine alone
  int threads = 1;                     // per rank
  std::string device = "cpu";          // cpu, cuda: there need be no GPU
  bool json = false;
  // Sizes, "80GiB": with the first the question is which model is the largest that fits.
  std::optional<std::string> device_memory, host_memory, nvme;
  bool suggest = false;          // which mesh is the fastest; with device_memory: that fits into it
  std::optional<int> num_hosts;  // that the ranks are on; none: one. Divides num_ranks.
  std::optional<std::string> network;  // bytes per second from each host, "12.5GB"

  int ranks() const { return num_ranks.value_or(1); }
  int ranks_of_host() const { return ranks() / num_hosts.value_or(1); }
};

void describe_plan(VerbApp& app, PlanArgs& values);

}  // namespace ds
