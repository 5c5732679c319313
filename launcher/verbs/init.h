// `dslaunch init`: a first train.json, from options or from answers on the terminal. Overwrites
// nothing unasked.
#pragma once

#include "cli/verbs/init.h"
#include "launcher/verbs/run.h"

namespace ds {

// Returns 0; throws UsageError for what cannot be chosen and for a file that is there already, and
// what a run would end with for data, a tokenizer or a model that it could not use.
int run_init(const InitOptions& options, const CommandContext& context);

}  // namespace ds
