// The numbers of a step that a test wants, in memory of its stream's device: its scalars, as an
// engine would have them before the update, and those of a micro-step.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/micro_inputs.h"
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

class PlacedInputs {
 public:
  explicit PlacedInputs(Stream& stream, int64_t first_sample = 0)
      : PlacedInputs(Rng(0, "dropout"), first_sample, stream) {}
  PlacedInputs(const Rng& dropout, int64_t first_sample, Stream& stream)
      : stream_(stream), block_(Tensor::empty({sizeof(MicroInputs)}, DType::kU8, stream)) {
    set({.dropout = dropout, .first_sample = first_sample});
  }

  void set(const MicroInputs& inputs) {
    stream_.copy(&inputs, block_.address(), sizeof inputs);
    stream_.synchronize();
  }
  const MicroInputs* get() const { return static_cast<const MicroInputs*>(block_.address()); }
  kernels::DropoutMask mask(uint64_t site = 0) const { return {get(), site}; }

 private:
  Stream& stream_;
  const Tensor block_;
};

}  // namespace ds::testing
