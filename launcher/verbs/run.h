// `dslaunch [run] train.json`: train on this machine, or on the hosts that are named.
#pragma once

#include <string>

#include "launcher/verbs/command_context.h"
#include "launcher/verbs/command_line.h"

namespace ds {

// "20261124-175901", for the names of run directories.
std::string local_time_stamp();

// Returns the exit code; throws Error for what fails before the ranks run.
int run_training_job(const RunOptions& options, const CommandContext& context);

}  // namespace ds
