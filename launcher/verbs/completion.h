// `dslaunch completion SHELL`: the script that makes a shell complete our command lines.
#pragma once

#include "cli/verbs/completion.h"

namespace ds {

// Prints to standard output; returns 0.
int run_completion(const CompletionOptions& options);

}  // namespace ds
