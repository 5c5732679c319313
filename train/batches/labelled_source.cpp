#include "train/batches/labelled_source.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/labelled_texts.h"
#include "data/tagged_words.h"

namespace ds {
namespace {

constexpr int32_t kNoClass = -1;

// Room for each row of a field with as many values for each sample.
template <class T = int32_t>
std::span<T> values_of(const MicroBatch& batch, std::string_view name, int64_t row, int64_t rows) {
  if (!batch.has(name)) return {};
  const std::span<T> all = batch.values<T>(name);
  const size_t each = all.size() / to_size(rows);
  return all.subspan(to_size(row) * each, each);
}

// Every token sees those that are no padding, and so does padding, of which nobody reads anything.
void write_ranges(int64_t size, std::span<int32_t> ranges) {
  for (size_t i = 0; i < ranges.size(); i += 2) {
    ranges[i] = 0;
    ranges[i + 1] = narrow<int32_t>(size);
  }
}

void write_segments(const LabelledSample& sample, std::span<int32_t> segments) {
  for (int64_t t = 0; t < std::ssize(segments); ++t) {
    segments[to_size(t)] = t >= sample.second_segment && t < sample.size ? 1 : 0;
  }
}

void write_tokens(std::span<const int32_t> tokens, std::span<int32_t> to) {
  if (!to.empty()) std::ranges::copy(tokens.first(to.size()), to.begin());
}

void write_text(std::span<const int32_t> numbers, const ScoredSamples& scored,
                const SampleFields& fields) {
  const LabelledSample sample = labelled_sample(numbers, scored.values);
  write_tokens(sample.tokens, fields.tokens);
  if (!fields.targets.empty()) {
    std::ranges::fill(fields.targets, kNoClass);
    fields.targets[scored.row == ScoredRow::kLast ? to_size(sample.size - 1) : 0] = sample.label;
  }
  write_ranges(sample.size, fields.key_ranges);
  write_segments(sample, fields.segments);
  for (size_t i = 0; i < fields.values.size(); ++i) fields.values[i] = sample.value(i);
}

void write_words(std::span<const int32_t> numbers, const SampleFields& fields) {
  const TaggedSample sample = tagged_sample(numbers);
  write_tokens(sample.tokens, fields.tokens);
  for (size_t t = 0; t < fields.targets.size(); ++t) {
    fields.targets[t] = sample.classes[t] > 0 ? sample.classes[t] - 1 : kNoClass;
  }
  write_ranges(sample.size, fields.key_ranges);
  std::ranges::fill(fields.segments, 0);  // a sample is one sentence
}

}  // namespace

WriteSample sample_writer(const ScoredSamples& scored) {
  if (scored.row == ScoredRow::kEach) return write_words;
  return [scored](std::span<const int32_t> numbers, const SampleFields& fields) {
    write_text(numbers, scored, fields);
  };
}

int64_t sample_size(std::span<const int32_t> numbers, const ScoredSamples& scored) {
  return scored.row == ScoredRow::kEach ? tagged_sample(numbers).size
                                        : labelled_sample(numbers, scored.values).size;
}

SampleFields sample_fields(const MicroBatch& batch, int64_t row, int64_t rows) {
  using namespace batch_field;
  return {.tokens = values_of(batch, kTokens, row, rows),
          .targets = values_of(batch, kTargets, row, rows),
          .key_ranges = values_of(batch, kKeyRanges, row, rows),
          .segments = values_of(batch, kSegments, row, rows),
          .values = values_of<float>(batch, kValues, row, rows),
          .pair_targets = values_of(batch, kPairTargets, row, rows)};
}

LabelledSource::LabelledSource(const SampleSet& samples, const Sampler& sampler,
                               const BatchShape& shape, const SamplePlace& place,
                               const LoaderOptions& options)
    : LoadedSource({samples, sampler, shape, place.rank}, place, options.observer),
      write_(sample_writer(options.rules.scored.value())) {
  DS_CHECK(place.parts == 1, "batch: part {} of {} of samples with classes", place.part,
           place.parts);
}

void LabelledSource::fill(int64_t step, int micro_step, const MicroBatch& batch) {
  const Batch read = loader().next(step, micro_step);
  const int64_t rows = read.tokens.shape()[0], numbers = read.tokens.shape()[1];
  for (int64_t row = 0; row < rows; ++row) {
    write_({read.tokens.data<int32_t>() + row * numbers, to_size(numbers)},
           sample_fields(batch, row, rows));
  }
  DS_CHECK(!batch.has(batch_field::kWeights) && !batch.has(batch_field::kPositions),
           "batch: samples with classes have neither weights nor positions of their own");
}

}  // namespace ds
