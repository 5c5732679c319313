// The watchers that a configuration asks for so that people see what training does: the parts of a
// step, the communication log, monitors, the state after loading. One list, made in one place.
#pragma once

#include <string>

#include "config/config.h"
#include "data/sampler.h"
#include "train/engine.h"
#include "train/measure/op_log.h"
#include "train/measure/step_timer.h"
#include "train/settings/job.h"
#include "train/settings/observers.h"
#include "train/settings/run_reports.h"
#include "train/workspace.h"

namespace ds {

struct InsightParts {
  const JobPlan& plan;
  const Config& config;
  const Workspace& workspace;
  Engine& engine;
  RunReports& reports;
  CallQueue& calls;      // of all groups of this rank
  OpLog& ops;            // of the engine's stream
  BatchSource& batches;  // that are trained on
  BatchShape batch;
  int64_t steps = 0;    // of the whole run
  std::string version;  // of the program
};

// Collective. All that is referred to must outlive the observers. Returns the timer among them.
StepTimer& add_insight(StepObservers& observers, const InsightParts& parts);

}  // namespace ds
