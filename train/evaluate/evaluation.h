// The evaluations of a run: the same batches each time, the whole validation set in order or the
// first so many of it. Collective: every rank has one and asks alike.
#pragma once

#include <optional>

#include "train/batches/sample_source.h"
#include "train/engine.h"
#include "train/settings/run_reports.h"

namespace ds {

// Evaluations, and what comes with them, are due every so many steps and after the last one.
struct EvaluationSchedule {
  int64_t every = 0;      // steps between two; 0: after the last step only
  int64_t last_step = 0;  // there is always one after it
  bool due(int64_t steps_done) const {
    return steps_done == last_step || (every > 0 && steps_done % every == 0);
  }
};

// The batches of an evaluation: the first `wanted` of the set, or all of it if that is 0 or more.
int64_t batches_of_evaluation(const SampleSet& samples, const BatchShape& shape, int64_t wanted);
// What an evaluation of all of the set leaves out, or has more than once, since batches are whole;
// empty: nothing, or a part of the set is wanted.
std::string unequal_evaluation(const SampleSet& samples, const BatchShape& shape, int64_t wanted);

class Evaluation {
 public:
  struct Options {
    SamplePlace place{};
    SampleRules rules{};
    const ReferenceScores* reference = nullptr;  // of samples that are pairs of texts
    uint64_t seed = 0;                           // of what is masked, alike in each evaluation
    BatchShape shape;                            // one micro-batch on each rank
    EvaluationSchedule schedule{};
    int64_t batches = 0;         // the first so many; 0: all
    double bytes_per_token = 0;  // of the set; 0: not known
  };
  Evaluation(Engine& engine, RunReports& reports, const SampleSet& samples, const Options& options);

  bool due(int64_t steps_done) const { return options_.schedule.due(steps_done); }
  // Adds the mean loss, "validation_loss", and of classes "validation_accuracy", the share of the
  // samples whose one class has the highest score, and of pairs "validation_reward_accuracy" and
  // "validation_reward_margin", if an evaluation is due after this many steps.
  void after(int64_t steps_done, Metrics& metrics);
  // "validation_loss", "validation_accuracy", "validation_bits_per_byte"
  void measure(Measured& measured) const;

 private:
  Engine& engine_;
  RunReports& reports_;
  const Options options_;
  const std::unique_ptr<BatchSource> source_;
  const int64_t batches_;
  std::optional<double> loss_;      // the newest
  std::optional<double> accuracy_;  // the newest, of samples that are each of a class
};

}  // namespace ds
