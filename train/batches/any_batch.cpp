#include "train/batches/any_batch.h"

#include <algorithm>
#include <numeric>

namespace ds {
namespace {

// How many scores a row of the head has: one for each token, or for each class.
size_t scores_of(const ModelConfig& model) {
  return model.classifier ? model.classifier->labels.size()
                          : static_cast<size_t>(dimensions(model).vocabulary);
}

}  // namespace

AnyBatch::AnyBatch(const ModelConfig& model, std::string_view purpose)
    : vocabulary_(static_cast<uint64_t>(dimensions(model).vocabulary)),
      scores_(scores_of(model)),
      rng_(0, purpose) {}

void AnyBatch::fill(int64_t step, int /*micro_step*/, const MicroBatch& batch) {
  const Rng rng = rng_.derive(static_cast<uint64_t>(step));
  const auto draw = [&](std::string_view name, uint64_t first, uint64_t below) {
    if (!batch.has(name)) return;
    const std::span<int32_t> values = batch.values<int32_t>(name);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>(rng.bits(first + i) % below);
    }
  };
  draw(batch_field::kTokens, 0, vocabulary_);
  draw(batch_field::kTargets, 1, scores_);
  draw(batch_field::kPairTargets, 1, kPairClasses);
  for (const std::string_view name : {batch_field::kPositions, batch_field::kSegments}) {
    if (batch.has(name)) std::ranges::fill(batch.values<int32_t>(name), 0);
  }
  if (batch.has(batch_field::kWeights)) {
    std::ranges::fill(batch.values<float>(batch_field::kWeights), 1.0F);
  }
  if (batch.has(batch_field::kValues)) {
    std::ranges::fill(batch.values<float>(batch_field::kValues), 0.0F);
  }
  if (batch.has(batch_field::kReference)) {
    std::ranges::fill(batch.values<double>(batch_field::kReference), 0.0);
  }
  for (const std::string_view name : {batch_field::kSides, batch_field::kPromptedSides}) {
    if (!batch.has(name)) continue;
    const std::span<int32_t> sides = batch.values<int32_t>(name);
    for (size_t i = 0; i < sides.size(); ++i) sides[i] = i % 2 == 0 ? 1 : -1;
  }
  if (!batch.has(batch_field::kKeyRanges)) return;
  const std::span<int32_t> ranges = batch.values<int32_t>(batch_field::kKeyRanges);
  const auto length = static_cast<int32_t>(batch.tensor(batch_field::kKeyRanges).shape()[1]);
  for (size_t i = 0; i < ranges.size(); i += 2) {
    ranges[i] = 0;
    ranges[i + 1] = length;
  }
}

}  // namespace ds
