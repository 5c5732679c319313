#include "train/batches/supervised_source.h"

#include <algorithm>
#include <vector>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/supervised/supervised_samples.h"

namespace ds {

void fill_supervised(std::span<const int32_t> numbers, int64_t samples, const SamplePlace& place,
                     const MicroBatch& batch) {
  using namespace batch_field;
  const int64_t each = std::ssize(numbers) / samples;
  const int64_t length = each / numbers_of_supervised(1);
  const std::span<int32_t> ranges =
      batch.has(kKeyRanges) ? batch.values<int32_t>(kKeyRanges) : std::span<int32_t>();
  const auto room_for = [&](std::string_view name) {
    return std::vector<int32_t>(batch.has(name) ? to_size(samples * length) : 0);
  };
  const bool is_prompted = batch.has(kPromptedSides);
  const std::string_view name_of_sides = is_prompted ? kPromptedSides : kSides;
  using Prompts = SupervisedFields::Prompts;
  std::vector<int32_t> tokens = room_for(kTokens), targets = room_for(kTargets),
                       positions = room_for(kPositions), sides = room_for(name_of_sides);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto row_of = [&](std::span<int32_t> all) {
      const size_t of_each = all.size() / to_size(samples);
      return all.subspan(to_size(sample) * of_each, of_each);
    };
    write_supervised(numbers.subspan(to_size(sample * each), to_size(each)),
                     {.tokens = row_of(tokens),
                      .targets = row_of(targets),
                      .positions = row_of(positions),
                      .key_ranges = row_of(ranges),
                      .sides = row_of(sides),
                      .prompts = is_prompted ? Prompts::kOfFirst : Prompts::kUntold});
  }
  const auto give = [&](std::string_view name, std::span<const int32_t> whole) {
    if (!whole.empty()) take_part(whole, length, place, batch.values<int32_t>(name));
  };
  give(kTokens, tokens);
  give(kTargets, targets);
  give(kPositions, positions);
  give(name_of_sides, sides);
  if (batch.has(kSegments)) std::ranges::fill(batch.values<int32_t>(kSegments), 0);
  DS_CHECK(!batch.has(kWeights), "batch: samples of supervised fine-tuning have no weights");
}

SupervisedSource::SupervisedSource(const SampleSet& samples, const Sampler& sampler,
                                   const BatchShape& shape, const SamplePlace& place,
                                   const LoaderOptions& options)
    : LoadedSource({samples, sampler, shape, place.rank}, place, options.observer),
      reference_(options.reference) {
  const int64_t length = samples.sequence_length() / numbers_of_supervised(1);
  DS_CHECK(place.part >= 0 && place.part < place.parts && length % place.parts == 0,
           "batch: part {} of {} of samples of {} tokens", place.part, place.parts, length);
}

void SupervisedSource::fill(int64_t step, int micro_step, const MicroBatch& batch) {
  const Batch read = loader().next(step, micro_step);
  fill_supervised({read.tokens.data<int32_t>(), to_size(read.tokens.numel())},
                  read.tokens.shape()[0], place(), batch);
  if (!batch.has(batch_field::kReference)) return;
  DS_CHECK(reference_ != nullptr, "batch: pairs of texts without a reference");
  const std::span<double> scores = batch.values<double>(batch_field::kReference);
  for (size_t row = 0; row < read.samples.size(); ++row) {
    const ReferenceScores::Pair& pair = reference_->of(read.samples[row]);
    std::ranges::copy(pair, scores.subspan(row * pair.size()).begin());
  }
}

}  // namespace ds
