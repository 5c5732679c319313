// The gradient side of the sharded store: where gradients are written, and how buckets are reduced.
//
// A parameter's gradient is written straight into its bucket's memory. When the last contribution
// of a bucket is there, the bucket is reduce-scattered: this rank receives the sum of its slice, in
// rank order. That happens once per micro-step at every stage: sums are then made in the same order
// whatever the stage, so the stages agree to the bit under gradient accumulation too. A stage
// differs only in whether the bucket's memory stays (0, 1) or lives from first contribution to
// reduction (2, 3).
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "core/index.h"
#include "model/param.h"
#include "zero/bucket_layout.h"
#include "zero/policy.h"

namespace ds {

struct GradOptions {
  Sharding sharding = Sharding::kWhole;  // of the gradients
  Sharding state = Sharding::kWhole;     // whole state needs whole gradients at the step
  DType dtype = DType::kF32;             // as written by the backward pass
  DType slice_dtype = DType::kF32;       // as summed over micro-steps
  int micro_steps = 1;
};

class GradReducer {
 public:
  // layout, comm, stream and memory must outlive it. memory: where peers can read (comm.memory(),
  // perhaps tracked). uses[i]: contributions that parameter i gets per micro-step.
  GradReducer(const GradOptions& options, const BucketLayout& layout, std::vector<int> uses,
              Communicator& comm, Stream& stream, MemoryResource& memory);

  void begin_step();  // the next micro-step is the first of a step
  GradSlot slot(int param, const Shape& shape);
  void ready(int param);
  // Checks that every bucket was reduced. With the last micro-step of a step, and whole state,
  // gathers the reduced slices back to every rank.
  void end_micro_step();

  // This rank's reduced slice of a bucket: [slice_numel], slice_dtype.
  const Tensor& slice(int bucket) const { return nth(states_, bucket).slice; }
  // The reduced whole bucket, after the last micro-step with whole state.
  const Tensor& whole(int bucket) const { return nth(states_, bucket).reduced; }
  int micro_step() const { return micro_step_; }

 private:
  struct State {
    Tensor whole;           // [numel] dtype; undefined while nothing is written (sharded gradients)
    Tensor slice;           // [slice_numel] slice_dtype; a view of `whole` where they can share
    Tensor reduced;         // [numel] slice_dtype with whole state: `whole`, unless dtypes differ
    int contributions = 0;  // still missing in this micro-step
  };
  bool direct() const { return comm_.size() == 1; }  // write and accumulate in place, no reduction
  Tensor new_whole(int bucket, MemoryTag tag);
  void reduce(int bucket);

  const GradOptions options_;
  const BucketLayout& layout_;
  const std::vector<int> uses_;
  Communicator& comm_;
  Stream& stream_;
  MemoryResource& memory_;
  std::vector<State> states_;
  std::vector<int> written_;  // contributions of a parameter in this micro-step
  int micro_step_ = 0;
};

}  // namespace ds
