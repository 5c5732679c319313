// Batches of supervised fine-tuning as the engine takes them: of each sample's tokens those that
// are learnt are targets, and examples that share a sample do not see each other. The examples of a
// pair are a better and a worse answer, of which a reference model's scores go with them.
#pragma once

#include <span>

#include "train/batches/loaded_source.h"
#include "train/batches/loader_source.h"

namespace ds {

// Writes fields of samples that are numbers of open_supervised() or open_preferences(), one after
// the other: of those that `batch` has the place's parts.
void fill_supervised(std::span<const int32_t> numbers, int64_t samples, const SamplePlace& place,
                     const MicroBatch& batch);

class SupervisedSource final : public LoadedSource {
 public:
  // samples: of open_supervised() or open_preferences().
  SupervisedSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
                   const SamplePlace& place, const LoaderOptions& options);

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;

 private:
  const ReferenceScores* const reference_;
};

}  // namespace ds
