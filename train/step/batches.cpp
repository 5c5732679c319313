#include "train/step/batches.h"

namespace ds {

StepBatches::StepBatches(const StepRules& rules, int64_t last_step, const StepShape& whole,
                         const SpecOf& spec_of)
    : rules_(rules), shapes_(rules.shapes(last_step)), evaluation_(spec_of(whole, RunMode::kEval)) {
  for (const auto& [shape, step] : shapes_) training_[shape] = spec_of(shape, RunMode::kTrain);
}

const BatchSpec& StepBatches::of_step(int64_t steps_before) const {
  return of(rules_.settings_at(steps_before + 1).shape);
}

}  // namespace ds
