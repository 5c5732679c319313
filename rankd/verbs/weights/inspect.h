// `dslaunch inspect`: what a file of weights or of a checkpoint holds.
#pragma once

#include "cli/verbs/inspect.h"

namespace ds {

// Prints a page or an object. Returns the exit code; throws Error.
int run_inspect(const InspectArgs& args);

}  // namespace ds
