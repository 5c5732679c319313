// `dslaunch profile`: one step of a job, module by module, in one process.
#pragma once

#include "cli/verbs/reports/profile.h"

namespace ds {

// `threads` is a number by now. Prints the reports of the flops profiler, or one object. Returns
// the exit code; throws Error.
int run_profile(const ProfileArgs& args);

}  // namespace ds
