// What training says of its steps: on every rank that it goes on, on rank 0 the metrics of each
// step. Steps of which the launcher never heard are said again after a load: their metrics went
// with the state (train/watch/step_note.h).
#pragma once

#include "train/observers.h"
#include "train/run_reports.h"
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
    int64_t global_batch = 0;  // samples per step
    int64_t length = 0;        // tokens per sample
    int64_t told_step = 0;     // as JobPlan's
    bool throughput = true;    // whether tokens per second are said
  };
  MetricsReport(RunReports& reports, const Workspace& workspace, const Options& options)
      : reports_(reports), workspace_(workspace), options_(options) {}

  void after_load(const std::string& note) override;
  void after_step(const StepReport& report) override;

 private:
  RunReports& reports_;
  const Workspace& workspace_;
  const Options options_;
};

}  // namespace ds
