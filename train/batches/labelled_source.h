// Batches of texts that are each of a class, as the engine takes them: one row of a sample has the
// class as its target, the others have none; padding is seen by no token.
#pragma once

#include "config/families/spec/transformer_spec.h"
#include "data/data_loader.h"
#include "train/batches/batch_source.h"
#include "train/batches/loader_source.h"

namespace ds {

class LabelledSource final : public BatchSource {
 public:
  // samples: of open_labelled_texts(). place: of ranks that have whole samples.
  LabelledSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
                 const SamplePlace& place, const LoaderOptions& options);

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;
  int64_t first_sample(int micro_step) const override;
  void on_use(int64_t step, int micro_step) override;

 private:
  DataLoader loader_;
  const SamplePlace place_;
  StepObserver* const observer_;
  const ScoredRow scored_;
};

// The source that the samples are for: what they hold is said by the options.
std::unique_ptr<BatchSource> make_sample_source(const SampleSet& samples, const Sampler& sampler,
                                                const BatchShape& shape, const SamplePlace& place,
                                                const LoaderOptions& options);

}  // namespace ds
