// TraceRecorder: keeps what this rank does in some steps of a run that goes on, for `dslaunch
// trace`. It begins and ends at step edges, on all ranks alike, and ends by itself after so many
// steps, or before where there is no more room. When nothing is recorded it costs a look at a flag.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device/background_log.h"
#include "train/measure/op_log.h"
#include "train/measure/step_timer.h"
#include "train/settings/job.h"
#include "train/settings/observers.h"
#include "train/settings/run_reports.h"
#include "train/trace/trace_text.h"

namespace ds {

// What the run says it does between steps, on its way to whoever hears that.
class PhaseWatch final : public RunReports {
 public:
  explicit PhaseWatch(RunReports& reports) : reports_(reports) {}
  void report_progress(const Progress& progress) override;
  void report_step(const StepMetrics& metrics) override { reports_.report_step(metrics); }
  std::vector<StepMetrics> untaken_steps() const override { return reports_.untaken_steps(); }
  void report_commit(const SavedTag& tag) override { reports_.report_commit(tag); }
  void report_text(std::string_view line) override { reports_.report_text(line); }

  void turn(bool on);
  // Those that are over; the one that goes on ends now.
  std::vector<TracedPhase> take();

 private:
  void end_phase();

  RunReports& reports_;
  bool is_on_ = false;
  TracedPhase now_{};  // without a name: none
  std::vector<TracedPhase> over_;
};

class TraceRecorder final : public StepObserver {
 public:
  static constexpr int64_t kMostEvents = 100'000;
  struct Options {
    int rank = 0;
    int64_t most_events = kMostEvents;
    BackgroundLog* beside = nullptr;  // of this rank's streams and swap files; null: it has none
    // Pieces of trace_text(), in order.
    std::function<void(std::string text, bool last)> send;
  };
  // `timer`: before this one in the list of observers. All must outlive it.
  TraceRecorder(HostExchange& host, StepTimer& timer, OpLog& ops, PhaseWatch& phases,
                Options options);

  // Collective, at a step edge. An order without steps ends what is recorded; one that comes while
  // something is recorded ends that first.
  void execute(const TraceOrder& order);

  void before_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void after_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void after_step(const StepReport& report) override;
  void before_exit(RunEnd end) override;

 private:
  struct Ops {
    int64_t step = 0;
    std::vector<std::vector<LoggedOp>> parts;
    std::vector<BackgroundWork> beside;  // told meanwhile
  };
  void keep(const MeasuredStep& measured, Ops ops);
  void keep_beside(std::vector<BackgroundWork> works, const MeasuredStep& measured);
  void turn_beside(bool on);
  // How many of so many events there is room for; the others are counted as left out.
  size_t room_for(size_t events);
  void finish();

  HostExchange& host_;
  StepTimer& timer_;
  OpLog& log_;
  PhaseWatch& phases_;
  const Options options_;
  int64_t steps_left_ = 0;  // 0: nothing is recorded
  RankTrace trace_;
  int64_t events_ = 0;
  std::vector<LoggedOp> now_;     // of the instruction that is being given
  std::vector<Ops> under_way_{};  // of steps without a result, oldest first
};

}  // namespace ds
