// StepUploads: the batches that the host gives the device in a step. They start in memory that does
// not make the host wait where there is such memory.
#pragma once

#include "core/memory/staging_ring.h"
#include "core/tensor.h"

namespace ds {

class StepUploads {
 public:
  // `copies`: the stream that batches are copied on; null: where the step computes, which `stream`
  // is.
  struct Options {
    int64_t tokens = 0;                // of a micro-batch
    MemoryResource* pinned = nullptr;  // null: the heap
    Stream* copies = nullptr;
  };
  StepUploads(const Options& options, Stream& stream);

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
  StagingRing batches_;
};

}  // namespace ds
