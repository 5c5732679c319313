// `dslaunch plan --suggest`: each mesh that the ranks can make, tried by the dry run.
#pragma once

#include "rankd/verbs/planned_way.h"

namespace ds {

// Prints them on stdout. `config`: as the command line has it. Returns the exit code, that of a
// configuration where no mesh is possible; throws Error.
int run_suggest(const PlanArgs& args, const Config& config, const ModelConfig& model);

}  // namespace ds
