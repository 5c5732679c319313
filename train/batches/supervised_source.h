// Batches of supervised fine-tuning as the engine takes them: of each sample's tokens those that
// are learnt are targets, and examples that are packed into one sample do not see each other.
#pragma once

#include "data/data_loader.h"
#include "train/batches/batch_source.h"
#include "train/batches/loader_source.h"

namespace ds {

class SupervisedSource final : public BatchSource {
 public:
  // samples: of open_supervised().
  SupervisedSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
                   const SamplePlace& place, const LoaderOptions& options);

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;
  int64_t first_sample(int micro_step) const override;
  void on_use(int64_t step, int micro_step) override;

 private:
  DataLoader loader_;
  const SamplePlace place_;
  StepObserver* const observer_;
};

}  // namespace ds
