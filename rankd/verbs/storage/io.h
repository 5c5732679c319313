// `dslaunch io`: how fast tensors are written to a folder and read from it.
#pragma once

#include "cli/verbs/storage/io.h"

namespace ds {

// Prints latencies and speeds. Returns the exit code; throws Error.
int run_io(const IoArgs& args);

}  // namespace ds
