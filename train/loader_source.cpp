#include "train/loader_source.h"

#include <algorithm>

#include "core/error.h"
#include "core/index.h"
#include "model/parallel/sequence_rows.h"

namespace ds {
namespace {

// The place's part of each row of `whole`.
void take_part(const Tensor& whole, const SamplePlace& place, std::span<int32_t> out) {
  const int64_t rows = whole.shape()[0];
  const int64_t length = whole.shape()[1];
  const int64_t part = length / place.parts;
  DS_CHECK(narrow<int64_t>(out.size()) == rows * part, "batch: room for {} tokens, expected {}",
           out.size(), rows * part);
  const Positions positions = positions_of_part(place.ring, place.part, place.parts, part);
  for (const RowBlock& block : row_blocks(rows * part, part, positions)) {
    for (int64_t row = 0; row < block.rows; row += block.length) {
      const int64_t to = block.row + row;
      const int32_t* const from = whole.data<int32_t>() + to / part * length + block.first_position;
      std::copy_n(from, block.length, out.begin() + to);
    }
  }
}

}  // namespace

LoaderSource::LoaderSource(const SampleSet& samples, const Sampler& sampler,
                           const BatchShape& shape, const SamplePlace& place,
                           StepObserver* observer)
    : loader_(samples, sampler, shape, place.rank), place_(place), observer_(observer) {
  DS_CHECK(
      place.part >= 0 && place.part < place.parts && samples.sequence_length() % place.parts == 0,
      "batch: part {} of {} of samples of {} tokens", place.part, place.parts,
      samples.sequence_length());
}

void LoaderSource::fill(int64_t step, int micro_step, std::span<int32_t> tokens,
                        std::span<int32_t> targets) {
  const Batch batch = loader_.next(step, micro_step);
  take_part(batch.tokens, place_, tokens);
  take_part(batch.targets, place_, targets);
}

int64_t LoaderSource::first_sample(int micro_step) const {
  return loader_.shape().first_index(micro_step, place_.rank);
}

void LoaderSource::on_use(int64_t step, int micro_step) {
  if (observer_ == nullptr || place_.part > 0 || place_.copy > 0) return;
  observer_->on_samples(step, micro_step, loader_.samples_of(step, micro_step));
}

}  // namespace ds
