#include "train/batches/loader_source.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

LoaderSource::LoaderSource(const SampleSet& samples, const Sampler& sampler,
                           const BatchShape& shape, const SamplePlace& place,
                           const LoaderOptions& options)
    : LoadedSource({samples, sampler, shape, place.rank}, place, options.observer),
      rules_(options.rules.documents),
      masking_(options.rules.masking),
      masks_(options.seed, "masked_lm") {
  DS_CHECK(!rules_.masks_loss || rules_.end,
           "batch: losses of the ends of documents, which are not known");
  DS_CHECK(
      place.part >= 0 && place.part < place.parts && samples.sequence_length() % place.parts == 0,
      "batch: part {} of {} of samples of {} tokens", place.part, place.parts,
      samples.sequence_length());
}

// Tokens of each sample that a step has, all ranks that share it together.
int64_t LoaderSource::whole_length(const MicroBatch& batch) const {
  if (batch.has(batch_field::kKeyRanges)) return batch.tensor(batch_field::kKeyRanges).shape()[1];
  for (const std::string_view name :
       {batch_field::kTokens, batch_field::kTargets, batch_field::kPositions}) {
    if (batch.has(name)) {
      return batch.tensor(name).numel() / loader().shape().micro_batch * place().parts;
    }
  }
  throw InternalError("batch: samples of text have none of its fields");
}

// A sample is masked by its place in the run, so that all ranks that share it mask it alike.
void LoaderSource::mask(int64_t step, int micro_step, const Batch& batch) const {
  const int64_t rows = batch.tokens.shape()[0], length = batch.tokens.shape()[1];
  const int64_t first = step * loader().shape().global_batch() + first_sample(micro_step);
  for (int64_t row = 0; row < rows; ++row) {
    const auto row_of = [&](const Tensor& tensor) {
      return std::span(tensor.data<int32_t>() + row * length, to_size(length));
    };
    mask_tokens(*masking_, masks_.derive(static_cast<uint64_t>(first + row)), row_of(batch.tokens),
                row_of(batch.targets));
  }
}

void LoaderSource::fill(int64_t step, int micro_step, const MicroBatch& batch) {
  const int64_t length = whole_length(batch);
  const Batch read = loader().next(step, micro_step, length);
  const auto numel = to_size(read.tokens.numel());
  const std::span<const int32_t> tokens(read.tokens.data<int32_t>(), numel);
  const std::span<int32_t> targets(read.targets.data<int32_t>(), numel);
  const auto part_of = [&](std::string_view name, std::span<const int32_t> whole) {
    take_part(whole, length, place(), batch.values<int32_t>(name));
  };
  // make(tokens, of_row) of each sample, which has `each` numbers a token.
  const auto by_sample = [&](std::span<int32_t> out, int64_t each, const auto& make) {
    for (int64_t at = 0; at < std::ssize(tokens); at += length) {
      make(tokens.subspan(to_size(at), to_size(length)), rules_.end.value(),
           out.subspan(to_size(at * each), to_size(length * each)));
    }
  };
  if (batch.has(batch_field::kPositions)) {
    std::vector<int32_t> positions(numel);
    by_sample(positions, 1, write_document_positions);
    part_of(batch_field::kPositions, positions);
  }
  if (batch.has(batch_field::kKeyRanges)) {
    by_sample(batch.values<int32_t>(batch_field::kKeyRanges), 2, write_document_ranges);
  }
  if (batch.has(batch_field::kSegments)) {  // a sample is one text
    std::ranges::fill(batch.values<int32_t>(batch_field::kSegments), 0);
  }
  if (rules_.masks_loss) by_sample(targets, 1, ignore_targets_of_ends);
  if (masking_) mask(step, micro_step, read);
  if (batch.has(batch_field::kTokens)) part_of(batch_field::kTokens, tokens);
  if (batch.has(batch_field::kTargets)) part_of(batch_field::kTargets, targets);
  DS_CHECK(!batch.has(batch_field::kWeights), "batch: samples of text have no weights");
}

}  // namespace ds
