// `dslaunch plan`: memory, communication and FLOPs of a job by the dry run, in one process.
#pragma once

#include <string>
#include <vector>

namespace ds {

enum class PlanOutput { kText, kJson };

struct PlanArgs {
  std::string config_path;
  std::vector<std::string> overrides;  // key.path=value
  int num_ranks = 1;
  int threads = 1;  // per rank
  PlanOutput output = PlanOutput::kText;
};

// Prints the plan on stdout. Returns the exit code; throws Error.
int run_plan(const PlanArgs& args);

}  // namespace ds
