// StepBatches: the shapes of a run's steps, and what this rank reads of a micro-batch in each.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "model/pass/batch.h"
#include "train/settings/step_settings.h"

namespace ds {

class StepBatches {
 public:
  using SpecOf = std::function<BatchSpec(const StepShape& shape, RunMode mode)>;
  // Evaluations have samples of `whole`.
  StepBatches(const StepRules& rules, int64_t last_step, const StepShape& whole,
              const SpecOf& spec_of);

  // The largest first, with the first step of each.
  const std::vector<StepRules::FirstStep>& shapes() const { return shapes_; }
  const BatchSpec& of(const StepShape& shape) const { return training_.at(shape); }
  // Micro-batches of the step after so many have this.
  const BatchSpec& of_step(int64_t steps_before) const;
  const BatchSpec& of_evaluation() const { return evaluation_; }
  const BatchSpec& largest() const { return of(shapes_.front().shape); }  // of steps

 private:
  const StepRules& rules_;
  const std::vector<StepRules::FirstStep> shapes_;
  std::map<StepShape, BatchSpec> training_;
  const BatchSpec evaluation_;
};

}  // namespace ds
