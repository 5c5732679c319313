// The numbers of a micro-step that a test wants, in memory of its stream's device.
#pragma once

#include "core/tensor.h"
#include "kernels/step/micro_inputs.h"

namespace ds::testing {

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
