// Batches of supervised fine-tuning as the engine takes them: of each sample's tokens those that
// are learnt are targets, and examples that are packed into one sample do not see each other.
#pragma once

#include "train/batches/loaded_source.h"
#include "train/batches/loader_source.h"

namespace ds {

class SupervisedSource final : public LoadedSource {
 public:
  // samples: of open_supervised().
  SupervisedSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
                   const SamplePlace& place, const LoaderOptions& options);

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;
};

}  // namespace ds
