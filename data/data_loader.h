// Batches for one rank: reads the samples that the sampler gives this rank in a step and
// micro-step. It has no state but its construction, so a restart needs the step number and nothing
// else.
#pragma once

#include <optional>
#include <span>

#include "core/device/tensor.h"
#include "data/sampler.h"
#include "data/tokens/dataset.h"

namespace ds {

struct Batch {
  Tensor tokens;                 // [micro batch, T] int32 on the CPU
  Tensor targets;                // the same, shifted by one
  std::vector<int64_t> samples;  // which sample each row is
};

// Confined to one thread only through the Batch it fills; next() itself is thread-safe.
class DataLoader {
 public:
  // `rank` counts data-parallel ranks: 0 .. shape.ranks - 1. The samples must outlive the loader.
  DataLoader(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
             int64_t rank);

  // Steps and micro-steps count from 0. With a length the batch has the first so many tokens of
  // each sample. Errors as SampleSet::read.
  Batch next(int64_t step, int64_t micro_step, std::optional<int64_t> length = std::nullopt) const;
  // Which samples those are; reads none.
  std::vector<int64_t> samples_of(int64_t step, int64_t micro_step) const;
  const BatchShape& shape() const { return shape_; }
  const SampleSet& samples() const { return samples_; }

 private:
  const SampleSet& samples_;
  Sampler sampler_;
  BatchShape shape_;
  int64_t rank_;
};

}  // namespace ds
