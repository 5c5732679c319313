// StepUploads: what the host gives the device in a step, and from where: batches, and the inputs of
// micro-steps. All of it starts in memory that does not make the host wait where there is such
// memory, and what lies on the device has the same places in every step.
#pragma once

#include "core/device/staging_ring.h"
#include "core/device/tensor.h"
#include "kernels/front/micro_inputs.h"
#include "model/pass/batch.h"

namespace ds {

class StepUploads {
 public:
  // For that many micro-batches under way at once, of at most so many bytes each. `copies`: the
  // stream that batches are copied on; null: where the step computes, which `stream` is.
  struct Options {
    int buffers = 1;
    int64_t batch_bytes = 0;
    MemoryResource* pinned = nullptr;  // null: the heap
    Stream* copies = nullptr;
  };
  StepUploads(const Options& options, Stream& stream);

  // The inputs of the micro-batch in a buffer, until the buffer has another one.
  const MicroInputs* place(int buffer, const MicroInputs& inputs);

  // A micro-batch in memory of the host, to be filled; it is taken until batch_copied().
  MicroBatch take_batch(const BatchSpec& spec);
  void batch_copied(const Event& copied) { batches_.give_back(copied); }

  // Copies a block of the host to one of the device, which nobody uses any more when what the
  // stream was given so far is done; what it is given afterwards finds it filled. The event: `from`
  // may be written again.
  Event copy(const Tensor& from, const Tensor& to);

 private:
  Stream& stream_;
  Stream& copies_;
  const int64_t batch_bytes_;
  const Tensor inputs_;  // MicroInputs of each buffer
  StagingRing staged_inputs_;
  StagingRing batches_;
};

}  // namespace ds
