// `dslaunch [run] train.json`: train on this machine, or on the hosts that are named.
#pragma once

#include <string>
#include <vector>

#include "launcher/command_line.h"

namespace ds {

// What a verb takes from its surroundings, read once in main.cpp.
struct Surroundings {
  std::string own_program;               // path of dslaunch
  std::string rank_program;              // path of rankd
  std::vector<std::string> environment;  // "NAME=value"
  const char* visible_gpus = nullptr;    // CUDA_VISIBLE_DEVICES
  bool no_colour = false;
};

// Returns the exit code; throws Error for what fails before the ranks run.
int run_training_job(const RunOptions& options, const Surroundings& surroundings);

}  // namespace ds
