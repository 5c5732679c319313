// `dslaunch eval --embed`: a vector of each text, in one process.
#pragma once

#include "cli/verbs/eval.h"

namespace ds {

// `threads` is a number by now. Prints the vectors, in the order of the texts. Returns the exit
// code; throws Error.
int run_embed(const EvalArgs& args);

}  // namespace ds
