// Batches of texts that are each of a class, or of words that are, as the engine takes them: one
// row of a sample has the class as its target, or each that counts its own, the others have none;
// padding is seen by no token. In the place of a class a sample may have values.
#pragma once

#include <functional>

#include "config/families/spec/transformer_spec.h"
#include "train/batches/loaded_source.h"
#include "train/batches/loader_source.h"

namespace ds {

// Room for what a sample has of each field; none: nobody asks for it.
struct SampleFields {
  std::span<int32_t> tokens, targets, key_ranges, segments;
  std::span<float> values{};
  std::span<int32_t> pair_targets{};  // of a head beside that of `targets`
};
using WriteSample = std::function<void(std::span<const int32_t> numbers, const SampleFields&)>;
// Fills the fields with the first tokens of a sample, as many as there is room for, which are all
// but padding.
WriteSample sample_writer(const ScoredSamples& scored);
// How many tokens of it are no padding.
int64_t sample_size(std::span<const int32_t> numbers, const ScoredSamples& scored);
// The fields of one of `rows` samples in a micro-batch on the host.
SampleFields sample_fields(const MicroBatch& batch, int64_t row, int64_t rows);

class LabelledSource final : public LoadedSource {
 public:
  // samples: of open_labelled_texts() or, where each row is scored, open_tagged_words(). place: of
  // ranks that have whole samples.
  LabelledSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
                 const SamplePlace& place, const LoaderOptions& options);

  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;

 private:
  const WriteSample write_;
};

}  // namespace ds
