// What the plans of `dslaunch plan` have in common: a configuration with further settings as this
// build would train it, or why it would not, and what this machine or another one can do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/verbs/plan.h"
#include "config/config.h"
#include "train/plan/costs.h"
#include "train/settings/engine_options.h"

namespace ds {

// Words behind a configuration: key=value.
using Settings = std::vector<std::string>;

struct PlannedWay {
  Config config;
  EngineOptions options;
};
struct WayRead {
  std::optional<PlannedWay> way{};
  std::string refused{};  // "key: why" where there is none: the first of what is wrong
};
// `settings` come behind those of the command line.
WayRead read_way(const PlanArgs& args, const ModelConfig& model, const Settings& settings);

// Returns the ceilings of ranks that train so: measured here, or those of the GPUs that are asked
// for. Throws Unsupported for GPUs in a build without their kernels, and what a measurement throws.
DeviceCeilings planned_ceilings(const PlanArgs& args, const PlannedWay& way);

}  // namespace ds
