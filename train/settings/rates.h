// What a configuration alone says of the rates of a run, without its data or its model.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "config/sections/scheduler.h"
#include "train/settings/step_settings.h"

namespace ds {

// The scheduler section with what other sections say of it: its length is that of the run, and a
// warm-up has a step at least.
SchedulerConfig schedule_of(const Config& config);

// What update number `update` of the optimizer, from 1, runs with if no step was skipped before it.
// ConfigError where the length of a schedule is missing, as with train.epochs, which depends on the
// data.
StepSettings settings_of_update(const Config& config, int64_t update);

}  // namespace ds
