// `dslaunch eval`: how well a model predicts given texts, in one process.
#pragma once

#include "cli/verbs/eval.h"

namespace ds {

// `threads` is a number by now. Prints the figures. Returns the exit code; throws Error.
int run_evaluate(const EvalArgs& args);

}  // namespace ds
