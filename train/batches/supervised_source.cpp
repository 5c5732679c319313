#include "train/batches/supervised_source.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/supervised/supervised_samples.h"

namespace ds {

SupervisedSource::SupervisedSource(const SampleSet& samples, const Sampler& sampler,
                                   const BatchShape& shape, const SamplePlace& place,
                                   const LoaderOptions& options)
    : LoadedSource({samples, sampler, shape, place.rank}, place, options.observer) {
  const int64_t length = samples.sequence_length() / numbers_of_supervised(1);
  DS_CHECK(place.part >= 0 && place.part < place.parts && length % place.parts == 0,
           "batch: part {} of {} of samples of {} tokens", place.part, place.parts, length);
}

void SupervisedSource::fill(int64_t step, int micro_step, const MicroBatch& batch) {
  using namespace batch_field;
  const Batch read = loader().next(step, micro_step);
  const int64_t rows = read.tokens.shape()[0], numbers = read.tokens.shape()[1];
  const int64_t length = numbers / numbers_of_supervised(1);
  const std::span<int32_t> ranges =
      batch.has(kKeyRanges) ? batch.values<int32_t>(kKeyRanges) : std::span<int32_t>();
  const auto room_for = [&](std::string_view name) {
    return std::vector<int32_t>(batch.has(name) ? to_size(rows * length) : 0);
  };
  std::vector<int32_t> tokens = room_for(kTokens), targets = room_for(kTargets),
                       positions = room_for(kPositions);
  for (int64_t row = 0; row < rows; ++row) {
    const auto row_of = [&](std::span<int32_t> all) {
      const size_t each = all.size() / to_size(rows);
      return all.subspan(to_size(row) * each, each);
    };
    write_supervised({read.tokens.data<int32_t>() + row * numbers, to_size(numbers)},
                     {.tokens = row_of(tokens),
                      .targets = row_of(targets),
                      .positions = row_of(positions),
                      .key_ranges = row_of(ranges)});
  }
  const auto give = [&](std::string_view name, std::span<const int32_t> whole) {
    if (!whole.empty()) take_part(whole, length, place(), batch.values<int32_t>(name));
  };
  give(kTokens, tokens);
  give(kTargets, targets);
  give(kPositions, positions);
  if (batch.has(kSegments)) std::ranges::fill(batch.values<int32_t>(kSegments), 0);
  DS_CHECK(!batch.has(kWeights), "batch: samples of supervised fine-tuning have no weights");
}

}  // namespace ds
