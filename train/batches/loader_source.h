// Batches of a sample set as the engine takes them. Who watches hears which samples they are.
#pragma once

#include "train/batches/loaded_source.h"
#include "train/batches/reference_scores.h"
#include "train/batches/sample_part.h"
#include "train/batches/sample_rules.h"
#include "train/settings/observers.h"

namespace ds {

struct LoaderOptions {
  SampleRules rules{};
  uint64_t seed = 0;  // of what is masked
  // Steps over which the loss of masked tokens is one mean, from the first on; 0: each by itself.
  // Only pairs of texts ask, whose source counts them beforehand.
  int64_t steps_of_mean = 0;
  // What another model says of samples that are pairs of texts; null: nobody asks yet.
  const ReferenceScores* reference = nullptr;
  // Hears of a sample from the rank that has its first part, of several from the first. Null:
  // nobody listens, as in an evaluation.
  StepObserver* observer = nullptr;
};

class LoaderSource final : public LoadedSource {
 public:
  LoaderSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
               const SamplePlace& place, const LoaderOptions& options = {});

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;

 private:
  int64_t whole_length(const MicroBatch& batch) const;
  void mask(int64_t step, int micro_step, const Batch& batch) const;

  const DocumentRules rules_;
  const std::optional<MaskingRules> masking_;
  const Rng masks_;
};

}  // namespace ds
