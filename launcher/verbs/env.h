// `dslaunch env`: what this build has, what this machine offers, and what each feature would need:
// the first thing to read, and to send along, when something does not work. Decides nothing.
#pragma once

#include "cli/verbs/env.h"
#include "launcher/verbs/run.h"

namespace ds {

// Prints to standard output; returns 0, also where rankd is missing, which it says.
int run_env(const EnvOptions& options, const CommandContext& context);

}  // namespace ds
