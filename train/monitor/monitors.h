// The monitors of a run (tensorboard, wandb, comet, csv_monitor), on rank 0: events of each step
// under DeepSpeed's names, and under names of ours for what it has none for. Writing is done by a
// thread of its own: a disk that is full, slow or not there makes lines, and never holds up a step.
// Steps that are shorter than a quarter of a second are handed to it several at once: each time it
// wakes, it takes a core from those that train.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/tasks/background_writer.h"
#include "train/measure/step_timer.h"
#include "train/monitor/sink.h"
#include "train/settings/observers.h"
#include "train/settings/run_reports.h"

namespace ds {

class BlockEigenvalues;  // train/eigenvalue/block_eigenvalues.h

// Who writes, and where what names no place goes.
struct MonitorOrigin {
  std::string run_dir;
  std::string config_text;
  std::string version;  // of the program
};
// Those that are switched on.
std::vector<std::unique_ptr<MonitorSink>> monitor_sinks(const Config& config,
                                                        const MonitorOrigin& origin);

// What a step is, for monitors.
struct MonitoredStep {
  int64_t global_batch = 0;  // samples
  double length = 0;         // tokens of one, where metrics do not say it
  bool scales_loss = false;
};
// `times`: null where nobody measures them.
std::vector<MonitorEvent> events_of(const StepReport& report, const MonitoredStep& step,
                                    const StepTimes* times);

// Returns the events of the blocks' eigenvalues, in their order (BlockEigenvalues::newest()).
std::vector<MonitorEvent> events_of(std::span<const double> eigenvalues);

class Monitors final : public StepObserver {
 public:
  struct Options {
    MonitoredStep step;
    const BlockEigenvalues* eigenvalues = nullptr;  // before this one in the list; null: none
    std::chrono::nanoseconds patience = std::chrono::seconds(3);  // at the end
    // Steps whose events wait less than this wait for more of them.
    std::chrono::nanoseconds gather_for = std::chrono::milliseconds(250);
    BackgroundWriter::Options writer{};
  };
  // `timer`: before this one in the list of observers.
  Monitors(std::vector<std::unique_ptr<MonitorSink>> sinks, RunReports& reports,
           const StepTimer& timer, const Options& options);
  ~Monitors() override;  // what waits is written, as far as that goes at once

  void after_step(const StepReport& report) override;
  void at_edge(int64_t steps_done) override;
  void before_exit(RunEnd end) override;

 private:
  struct Place {
    std::shared_ptr<MonitorSink> sink;  // its jobs', too
    BackgroundWriter::Lane lane;
    int64_t lost = 0;  // steps, since that was told
  };
  using Batches = std::vector<MonitorBatch>;
  void post(const std::function<void(MonitorSink&)>& add);
  void post_waiting();
  void post_now_and_then();
  void report_changes();

  const Options options_;
  RunReports& reports_;
  const StepTimer& timer_;
  BackgroundWriter writer_;
  std::vector<Place> places_;
  bool has_begun_ = false, has_ended_ = false;
  Batches waiting_;                                                 // for the writer
  std::optional<std::chrono::steady_clock::time_point> posted_at_;  // none: nothing yet
};

}  // namespace ds
