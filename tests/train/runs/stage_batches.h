// What stages read of micro-batches, for tests that run steps without an engine.
#pragma once

#include "model/modules/pipeline_stage.h"

namespace ds::testing {

// `stages`: pointers of any kind, of one rank.
template <class Stages>
BatchSpec batch_spec_of(const Stages& stages, int64_t samples, int64_t length, RunMode mode) {
  BatchSpec spec;
  for (const auto& stage : stages) {
    spec.add(stage->batch_spec(
        {.samples = samples, .length = length, .whole_length = length, .mode = mode}));
  }
  return spec;
}

}  // namespace ds::testing
