// Keeps a run's state in the memory of its hosts every so many steps (train/memory_tier.h). What
// cannot be kept costs more steps after a failure, and nothing now: the first failure in a row is a
// warning. Collective: every rank has one and is told alike.
#pragma once

#include "train/memory_tier.h"
#include "train/settings/observers.h"
#include "train/settings/run_reports.h"

namespace ds {

class MemorySaver final : public StepObserver {
 public:
  struct Options {
    int rank = 0;
    int64_t every = 1;       // steps between two states that are kept
    int64_t copy_every = 1;  // steps between two that are also kept on another host
    int64_t last_step = 0;   // after which nothing is kept
  };
  MemorySaver(MemoryTier& memory, RunReports& reports, const Options& options)
      : memory_(memory), reports_(reports), options_(options) {}

  bool needs_edge(int64_t steps_done) const override;
  void at_edge(int64_t steps_done) override;
  void measure(Measured& measured) const override;  // "seconds_per_memory_save"

 private:
  MemoryTier& memory_;
  RunReports& reports_;
  const Options options_;
  int failures_ = 0;      // in a row
  bool put_off_ = false;  // of a step that changed nothing: the next one that does is kept
  double seconds_ = 0;
  int64_t saves_ = 0;
};

}  // namespace ds
