// What training says of its steps: on every rank that it goes on, on rank 0 the metrics of each
// step. Steps of which the launcher never heard are said again after a load: their metrics went
// with the state (train/measure/step_note.h).
#pragma once

#include <functional>
#include <utility>

#include "train/measure/wall_time.h"
#include "train/settings/observers.h"
#include "train/settings/run_reports.h"
#include "train/workspace.h"

namespace ds {

class ProgressReport final : public StepObserver {
 public:
  explicit ProgressReport(RunReports& reports) : reports_(reports) {}
  void before_micro_step(int64_t steps_done, int micro_step) override;

 private:
  RunReports& reports_;
};

// For rank 0 alone.
class MetricsReport final : public StepObserver {
 public:
  struct Options {
    int64_t total_steps = 0;
    int64_t global_batch = 0;       // samples per step
    double length = 0;              // tokens per sample, where metrics do not say it
    int64_t told_step = 0;          // as JobPlan's
    bool throughput = true;         // whether tokens per second are said
    int64_t samples_per_epoch = 0;  // of one pass over the data
    int64_t generation = 0;         // of the world
  };
  // `time`: seconds since 1970.
  MetricsReport(RunReports& reports, const Workspace& workspace, const Options& options,
                std::function<double()> time = wall_seconds)
      : reports_(reports), workspace_(workspace), options_(options), time_(std::move(time)) {}

  void after_load(const std::string& note) override;
  void after_step(const StepReport& report) override;

 private:
  RunReports& reports_;
  const Workspace& workspace_;
  const Options options_;
  const std::function<double()> time_;
};

}  // namespace ds
