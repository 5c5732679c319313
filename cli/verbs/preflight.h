// `dslaunch preflight`: the hosts of a job, and the job itself where a config is given.
#pragma once

#include "cli/verbs/run.h"

namespace ds {

struct PreflightArgs {
  RunArgs run;  // `config` may be empty; its own `json` is not asked for
  bool json = false;
};

void describe_preflight(VerbApp& app, PreflightArgs& values);

}  // namespace ds
