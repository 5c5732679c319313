// `dslaunch generate`: text from a trained model, in one process.
#pragma once

#include "cli/verbs/generate.h"

namespace ds {

// `threads` is a number by now. Prints prompts and what continues them on stdout. Returns the exit
// code; throws Error.
int run_generate(const GenerateArgs& args);

}  // namespace ds
