// One step of a job on one rank of this machine, with new weights and any tokens, looked at by the
// flops profiler: what a model costs, before there is data or a run.
#pragma once

#include "config/sections/monitor.h"
#include "train/profile/report.h"
#include "train/settings/engine_options.h"

namespace ds {

struct StepProfile {
  ProfileFigures figures;
  ModuleProfile model;
};
// The step that `config` names; those before it warm up. On the CPU, with so many threads.
StepProfile profile_one_step(const EngineOptions& options, const FlopsProfilerConfig& config,
                             int threads);

}  // namespace ds
