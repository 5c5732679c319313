// Batches of a sample set as the engine takes them. Who watches hears which samples they are.
#pragma once

#include "data/data_loader.h"
#include "data/document_rows.h"
#include "data/masked_tokens.h"
#include "train/batches/batch_source.h"
#include "train/batches/scored_samples.h"
#include "train/settings/observers.h"

namespace ds {

// What a rank has of a global batch.
struct SamplePlace {
  int rank = 0;  // among those that have other samples
  int part = 0;  // of each sample, of `parts` that are equally long, on ranks of their own
  int parts = 1;
  int ring = 1;  // ranks of one, by which parts are cut: model/parallel/sequence_rows.h
  int copy = 0;  // among ranks that have the same part
};
struct LoaderOptions {
  DocumentRules documents{};
  std::optional<MaskingRules> masking{};
  std::optional<ScoredSamples> scored{};  // unset: samples are tokens alone
  uint64_t seed = 0;                      // of what is masked
  // Steps over which the loss of masked tokens is one mean, from the first on; 0: each by itself.
  // Only pairs of texts ask, whose source counts them beforehand.
  int64_t steps_of_mean = 0;
  // Hears of a sample from the rank that has its first part, of several from the first. Null:
  // nobody listens, as in an evaluation.
  StepObserver* observer = nullptr;
};

class LoaderSource final : public BatchSource {
 public:
  LoaderSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
               const SamplePlace& place, const LoaderOptions& options = {});

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;
  int64_t first_sample(int micro_step) const override;
  void on_use(int64_t step, int micro_step) override;

 private:
  int64_t whole_length(const MicroBatch& batch) const;
  void mask(int64_t step, int micro_step, const Batch& batch) const;

  DataLoader loader_;
  const SamplePlace place_;
  StepObserver* const observer_;
  const DocumentRules rules_;
  const std::optional<MaskingRules> masking_;
  const Rng masks_;
};

}  // namespace ds
