#include "data/data_loader.h"

#include <algorithm>

#include "core/values/index.h"

namespace ds {

DataLoader::DataLoader(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape,
                       int64_t rank)
    : samples_(samples), sampler_(sampler), shape_(shape), rank_(rank) {
  DS_CHECK(rank >= 0 && rank < shape.ranks && shape.micro_batch > 0 && shape.accumulation > 0,
           "data loader: rank {} of {}, micro batch {}, accumulation {}", rank, shape.ranks,
           shape.micro_batch, shape.accumulation);
}

std::vector<int64_t> DataLoader::samples_of(int64_t step, int64_t micro_step) const {
  DS_CHECK(step >= 0 && micro_step >= 0 && micro_step < shape_.accumulation,
           "data loader: step {}, micro-step {} of {}", step, micro_step, shape_.accumulation);
  const int64_t first = step * shape_.global_batch() + shape_.first_index(micro_step, rank_);
  std::vector<int64_t> samples;
  for (int64_t row = 0; row < shape_.micro_batch; ++row) {
    samples.push_back(sampler_.sample_at(first + row));
  }
  return samples;
}

Batch DataLoader::next(int64_t step, int64_t micro_step, std::optional<int64_t> beginning) const {
  const int64_t full = samples_.sequence_length(), length = beginning.value_or(full);
  DS_CHECK(length <= full, "batch: {} tokens of samples of {}", length, full);
  const auto width = to_size(length);
  const auto rows = to_size(shape_.micro_batch);
  // Inputs and targets in one block that both tensors own.
  auto block = std::make_shared<std::vector<int32_t>>(2 * rows * width);
  int32_t* tokens = block->data();
  int32_t* targets = tokens + rows * width;
  std::vector<int32_t> sample(to_size(full) + 1);
  Batch batch{.tokens = {}, .targets = {}, .samples = samples_of(step, micro_step)};
  for (size_t row = 0; row < rows; ++row) {
    samples_.read(batch.samples[row], sample);
    std::copy_n(sample.begin(), width, tokens + row * width);
    std::copy_n(sample.begin() + 1, width, targets + row * width);
  }
  const Shape shape{shape_.micro_batch, length};
  batch.tokens = Tensor::borrow(tokens, shape, DType::kI32, Device::cpu(), block);
  batch.targets = Tensor::borrow(targets, shape, DType::kI32, Device::cpu(), block);
  return batch;
}

}  // namespace ds
