// `dslaunch generate` where ranks have the model: a job like any other, but for what its ranks do.
#pragma once

#include "cli/verbs/generate.h"
#include "launcher/verbs/run.h"

namespace ds {

// Returns the exit code; throws Error for what fails before the ranks run.
int run_generation_job(const GenerateArgs& args, const CommandContext& context);

}  // namespace ds
