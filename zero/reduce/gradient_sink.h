// GradientSink: where the gradients of a group of parameters are written, and what becomes of them.
//
// A parameter's gradient is written straight into the memory of its bucket. When the last
// contribution of a bucket is there, the sink does with it what the stage asks for: it is summed
// over ranks in rank order, and this rank keeps its slice of the sum, or the whole, or hands its
// slice to who keeps the optimizer's state. By default that happens once per micro-step at every
// stage: sums are then made in the same order whatever the stage, so the stages agree to the bit
// under gradient accumulation too.
//
// zero/reduce/sink_factory.h chooses the sink once; afterwards nobody asks which one it is.
#pragma once

#include "core/device/tensor.h"
#include "model/pass/param.h"
#include "optim/optimizer.h"

namespace ds {

// Parameters and buckets are counted within the group.
class GradientSink {
 public:
  virtual ~GradientSink() = default;

  // The next micro-step is the first of a step.
  virtual void begin_step(GradientsOf gradients) = 0;
  virtual GradSlot slot(int param, const Shape& shape) = 0;
  virtual void ready(int param) = 0;
  // This is called for a table before its ready(). order: the tokens by whose order the
  // contribution was made. Sinks that send whole tables need not know.
  virtual void rows_touched(int /*param*/, const Tensor& /*order*/) {}
  // Checks that every bucket was reduced, if reduction is due each micro-step.
  virtual void end_micro_step() = 0;
  // A micro-step like one before it has been given to the streams by others.
  virtual void repeat_micro_step() = 0;
  virtual void forget_events() = 0;
  // What is left of the reduction.
  virtual void end_step() = 0;
  // The sum of this rank's micro-batches alone, to be added to before end_step(); kept where
  // reduction is not due each micro-step.
  virtual Tensor summed(int param, const Shape& shape) const = 0;

  // After end_step(), where the state is on the device: what this rank updates a bucket with. It is
  // its slice of the sum, or, with whole state, the whole bucket. It lies in the same place always.
  virtual Tensor gradient(int bucket) const = 0;
  // Adds the squares of this rank's slices to an fp64 number; of whole buckets where a step has the
  // rank's own gradients.
  virtual void add_sum_of_squares(const Tensor& total) = 0;
};

}  // namespace ds
