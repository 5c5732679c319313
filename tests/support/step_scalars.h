// The scalars of a step that a test wants, as an engine would have them before the update.
#pragma once

#include "kernels/step/scalars.h"

namespace ds::testing {

struct Verdict {
  float grad_scale = 1;
  uint32_t skip = 0;
};

inline StepScalars scalars_of(Stream& stream, const StepInputs& inputs,
                              const Verdict& verdict = {}) {
  StepScalars scalars(1, stream);
  scalars.upload(inputs, 0);
  scalars.write({.sums = {}, .grad_scale = verdict.grad_scale, .skip = verdict.skip});
  return scalars;
}

}  // namespace ds::testing
