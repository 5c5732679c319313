// Saves a run's state as tags: when the schedule says so, when somebody asks, and at the end, with
// the exported model if all steps are done. A save that fails costs a tag and not the run, as
// SaveSchedule has it; at the end there are no more steps in which it could be tried again, so it
// waits and tries for half a minute. A save that is due after a step that changed no weight (an
// overflow in fp16) waits for one that did, so that no good tag has to go for it. Collective: every
// rank has one and is told alike.
#pragma once

#include <functional>
#include <string>

#include "train/checkpointing.h"
#include "train/settings/observers.h"
#include "train/settings/run_reports.h"
#include "train/settings/save_schedule.h"

namespace ds {

class TagSaver final : public StepObserver {
 public:
  struct Options {
    int rank = 0;
    SaveSchedule schedule;
    bool at_end = true;           // when all steps are done; what is stopped is saved either way
    std::string model_folder;     // where the model is exported to
    const FolderFrame& frame;     // of rank 0, for that
    std::function<void()> pause;  // a second, between two tries at the end
  };
  TagSaver(Engine& engine, Checkpointing& checkpoints, RunReports& reports, const Options& options)
      : engine_(engine),
        checkpoints_(checkpoints),
        reports_(reports),
        options_(options),
        schedule_(options.schedule) {}

  // Now, whatever the schedule says; false if it failed. IoError on every rank when SaveSchedule
  // has had enough.
  bool save_and_go_on();
  // The same, and what is saved is kept always, and exported at the end.
  bool save_and_keep();

  void after_step(const StepReport& report) override { step_seconds_ = report.seconds; }
  bool needs_edge(int64_t steps_done) const override;
  void at_edge(int64_t steps_done) override;
  void before_exit(RunEnd end) override;

  static constexpr int kTriesAtTheEnd = 30;

 private:
  void save();
  void require_updates() const;
  void insist(const std::function<void()>& part);
  void progress(const char* phase, int64_t total = 0);
  void warn(const std::string& what);

  Engine& engine_;
  Checkpointing& checkpoints_;
  RunReports& reports_;
  const Options options_;
  SaveSchedule schedule_;
  double step_seconds_ = 0;  // of the newest step
  int64_t saved_step_ = -1;
};

}  // namespace ds
