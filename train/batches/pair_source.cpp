#include "train/batches/pair_source.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/labelled_samples.h"

namespace ds {
namespace {

constexpr int32_t kNoTarget = -1;

std::vector<DataLoader> loaders_of(const SampleSet& samples, const Sampler& sampler,
                                   const BatchShape& shape) {
  std::vector<DataLoader> loaders;
  for (int64_t rank = 0; rank < shape.ranks; ++rank) {
    loaders.emplace_back(samples, sampler, shape, rank);
  }
  return loaders;
}

std::span<const int32_t> numbers_of(const Batch& read, int64_t row) {
  const int64_t numbers = read.tokens.shape()[1];
  return {read.tokens.data<int32_t>() + row * numbers, to_size(numbers)};
}

}  // namespace

PairSource::PairSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
                       const SamplePlace& place, const LoaderOptions& options)
    : LoadedSource({samples, sampler, shape, place.rank}, place, options.observer),
      loaders_(loaders_of(samples, sampler, shape)),
      masking_(options.rules.masking.value()),
      masks_(options.seed, "masked_lm"),
      steps_of_mean_(options.steps_of_mean),
      write_(sample_writer(options.rules.scored.value())) {
  DS_CHECK(place.parts == 1, "batch: part {} of {} of pairs of texts", place.part, place.parts);
}

PairSource::Masked PairSource::masked(int64_t step, int micro_step, int64_t rank, const Batch& read,
                                      int64_t row) const {
  const LabelledSample sample = labelled_sample(numbers_of(read, row), 0);
  Masked out{.tokens = {sample.tokens.begin(), sample.tokens.end()}, .targets = {}};
  out.targets.assign(out.tokens.size(), kNoTarget);
  const BatchShape& shape = loader().shape();
  const int64_t place = step * shape.global_batch() + shape.first_index(micro_step, rank) + row;
  const auto size = to_size(sample.size);
  mask_tokens(masking_, masks_.derive(static_cast<uint64_t>(place)),
              std::span(out.tokens).first(size), std::span(out.targets).first(size));
  return out;
}

int64_t PairSource::masked_tokens(int64_t step) const {
  int64_t count = 0;
  for (int64_t rank = 0; rank < std::ssize(loaders_); ++rank) {
    const DataLoader& loader = nth(loaders_, rank);
    for (int micro_step = 0; micro_step < loader.shape().accumulation; ++micro_step) {
      const Batch read = loader.next(step, micro_step);
      for (int64_t row = 0; row < read.tokens.shape()[0]; ++row) {
        const Masked made = masked(step, micro_step, rank, read, row);
        count += std::ssize(made.targets) - std::ranges::count(made.targets, kNoTarget);
      }
    }
  }
  return count;
}

// The loss is made as a mean over all tokens of the batch, so that what a masked one weighs is how
// many tokens there are for each that is masked.
float PairSource::weight_of_token(int64_t step) {
  const int64_t first = steps_of_mean_ > 0 ? step / steps_of_mean_ * steps_of_mean_ : step;
  if (weighed_ == first) return weight_;
  const int64_t steps = std::max<int64_t>(steps_of_mean_, 1);
  int64_t count = 0;
  for (int64_t at = first; at < first + steps; ++at) count += masked_tokens(at);
  const int64_t length = loader().samples().sequence_length() - numbers_of_labelled(0, 0);
  const auto all = static_cast<double>(steps * loader().shape().global_batch() * length);
  weight_ = count == 0 ? 0.0F : static_cast<float>(all / static_cast<double>(count));
  weighed_ = first;
  return weight_;
}

void PairSource::fill(int64_t step, int micro_step, const MicroBatch& batch) {
  using namespace batch_field;
  const Batch read = loader().next(step, micro_step);
  const int64_t rows = read.tokens.shape()[0];
  for (int64_t row = 0; row < rows; ++row) {
    const SampleFields fields = sample_fields(batch, row, rows);
    SampleFields of_pair = fields;
    of_pair.tokens = {};
    of_pair.targets = fields.pair_targets;
    write_(numbers_of(read, row), of_pair);
    if (fields.tokens.empty() && fields.targets.empty()) continue;
    const Masked made = masked(step, micro_step, place().rank, read, row);
    if (!fields.tokens.empty()) std::ranges::copy(made.tokens, fields.tokens.begin());
    if (!fields.targets.empty()) std::ranges::copy(made.targets, fields.targets.begin());
  }
  if (batch.has(kWeights)) std::ranges::fill(batch.values<float>(kWeights), weight_of_token(step));
}

}  // namespace ds
