// StepUploads: what the host gives the device in a step, and from where: batches, and the inputs of
// micro-steps. All of it starts in memory that does not make the host wait where there is such
// memory, and what lies on the device has the same places in every step.
#pragma once

#include "core/memory/staging_ring.h"
#include "core/tensor.h"
#include "kernels/step/micro_inputs.h"

namespace ds {

class StepUploads {
 public:
  // For that many micro-batches under way at once, of so many tokens each. `copies`: the stream
  // that batches are copied on; null: where the step computes, which `stream` is.
  struct Options {
    int buffers = 1;
    int64_t tokens = 0;
    MemoryResource* pinned = nullptr;  // null: the heap
    Stream* copies = nullptr;
  };
  StepUploads(const Options& options, Stream& stream);

  // The inputs of the micro-batch in a buffer, until the buffer has another one.
  const MicroInputs* place(int buffer, const MicroInputs& inputs);

  // A batch in host memory: tokens, targets and the order of the tokens (kernels::sort_tokens()).
  struct Batch {
    std::span<int32_t> tokens, targets, order;
  };
  // To be filled; it is taken until batch_copied().
  Batch take_batch();
  void batch_copied(const Event& copied) { batches_.give_back(copied); }

  // Copies to tensors, which nobody uses any more when what the stream was given so far is done;
  // what it is given afterwards finds them filled. The event: `from` may be written again.
  struct Copy {
    std::span<const int32_t> from;
    const Tensor& to;
  };
  Event copy(std::span<const Copy> all);

 private:
  Stream& stream_;
  Stream& copies_;
  const int64_t tokens_;
  const Tensor inputs_;  // MicroInputs of each buffer
  StagingRing staged_inputs_;
  StagingRing batches_;
};

}  // namespace ds
