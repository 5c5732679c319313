// Batches of pairs of texts, as next sentence prediction with masked tokens has them (Devlin et
// al., arXiv 1810.04805): the first row of a sample has the pair's class as its target, and rows
// whose token is masked have that token.
//
// The loss is the sum of two means, one over the samples and one over the masked tokens, of which
// the global batch has as many as it happens. So that gradients of both may be added up in one
// buffer, how many there are is counted before the first is made: what is masked follows from seed
// and place alone, so that each rank counts for all, on the thread that reads ahead.
#pragma once

#include <vector>

#include "train/batches/labelled_source.h"
#include "train/batches/loaded_source.h"

namespace ds {

class PairSource final : public LoadedSource {
 public:
  // samples: of open_sentence_pairs(). place: of ranks that have whole samples.
  PairSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
             const SamplePlace& place, const LoaderOptions& options);

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;

 private:
  // The tokens of a row of a rank's micro-batch, once masked, and what they were, or -1.
  struct Masked {
    std::vector<int32_t> tokens, targets;
  };
  Masked masked(int64_t step, int micro_step, int64_t rank, const Batch& read, int64_t row) const;
  int64_t masked_tokens(int64_t step) const;  // of the global batch
  float weight_of_token(int64_t step);

  std::vector<DataLoader> loaders_;  // of each rank with other samples
  const MaskingRules masking_;
  const Rng masks_;
  const int64_t steps_of_mean_;
  const WriteSample write_;
  int64_t weighed_ = -1;  // the newest step, or the first of a mean, that weight_ is of
  float weight_ = 0;
};

}  // namespace ds
