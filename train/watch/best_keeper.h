// The state of a run with the least validation loss: it is saved when an evaluation says so, kept
// whatever comes, and exported at the end; and where evaluations get no better, the run is over.
// Collective: every rank has one and is told alike.
#pragma once

#include <functional>
#include <string>

#include "train/checkpointing.h"
#include "train/settings/job.h"
#include "train/watch/best_evaluation.h"
#include "train/watch/tag_saver.h"

namespace ds {

class BestKeeper {
 public:
  struct Options {
    bool keeps = false;  // a checkpoint, too
    StoppingRule stopping{};
    int64_t steps = 0;             // of the whole run
    std::string measure{};         // see BestEvaluation::text()
    MemoryTier* memory = nullptr;  // null: not wanted
    std::function<void(const std::string& line)> report;
  };
  BestKeeper(Engine& engine, Checkpointing& checkpoints, TagSaver& saver, const Options& options)
      : engine_(engine),
        checkpoints_(checkpoints),
        saver_(saver),
        options_(options),
        best_(options.stopping) {}

  // After a load: what rank 0 has read becomes what all ranks know.
  void restore();
  // The validation loss after a step, of which all that is heard has been heard.
  void hear(int64_t step, double loss);
  bool is_over() const { return best_.is_over(); }
  void report_end() const;
  // "best_validation_loss", "best_step"
  void measure(Measured& measured) const;

 private:
  void hand_on();
  void restore_tag();

  Engine& engine_;
  Checkpointing& checkpoints_;
  TagSaver& saver_;
  const Options options_;
  BestEvaluation best_;
};

}  // namespace ds
