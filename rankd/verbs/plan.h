// `dslaunch plan`: memory, communication and FLOPs of a job by the dry run, in one process.
#pragma once

#include "cli/verbs/plan.h"

namespace ds {

// Prints the plan on stdout. Returns the exit code; throws Error.
int run_plan(const PlanArgs& args);

}  // namespace ds
