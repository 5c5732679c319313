// `dslaunch [run] train.json`: train on this machine, or on the hosts that are named.
#pragma once

#include <string>
#include <vector>

#include "launcher/process/machine.h"
#include "launcher/run/job_config.h"
#include "launcher/verbs/command_line.h"

namespace ds {

// What a verb takes from its environment, read once in main.cpp.
struct CommandContext {
  std::string own_program;               // path of dslaunch
  std::string rank_program;              // path of rankd
  std::vector<std::string> environment;  // "NAME=value"
  const char* visible_gpus = nullptr;    // CUDA_VISIBLE_DEVICES
  bool no_colour = false;
};

// Ranks and threads of a job on this machine: batch sizes that fit one world only choose it, as
// long as there is room for it.
WorldShape local_shape(const RunOptions& options, const JobConfig& config, const Machine& machine);

// "20261124-175901", for the names of run directories.
std::string local_time_stamp();

// Returns the exit code; throws Error for what fails before the ranks run.
int run_training_job(const RunOptions& options, const CommandContext& context);

}  // namespace ds
