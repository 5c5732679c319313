// The numbers that change from micro-step to micro-step, in memory of the device, as those of
// scalars.h change from step to step: kernels read them there when they run, so that a recorded
// micro-step can be run again with others. What a place in the model drops follows from them and
// from its number, which stays.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/values/rng.h"

namespace ds {

// Written by the host, once per micro-step.
struct alignas(64) MicroInputs {
  Rng dropout{0, "dropout"};  // of the step
  int64_t first_sample = 0;   // index, within the global batch, of the first row's sample
};
static_assert(std::is_trivially_copyable_v<MicroInputs> && sizeof(MicroInputs) == 64);

namespace kernels {

// What one place of the model drops in a micro-step.
struct DropoutMask {
  const MicroInputs* inputs = nullptr;  // in memory of the stream's device
  uint64_t site = 0;                    // number of the place within the model
  int64_t skipped = 0;  // elements of the first sample that come before, and other ranks have

  // Only where the inputs can be read.
  constexpr Rng rng() const { return inputs->dropout.derive(site); }
};

}  // namespace kernels
}  // namespace ds
