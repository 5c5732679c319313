// Random tokens instead of a data set, for the benchmarks of training.
#pragma once

#include <algorithm>

#include "core/values/rng.h"
#include "train/engine.h"

namespace ds::bench {

class RandomTokens final : public BatchSource {
 public:
  explicit RandomTokens(int32_t vocabulary) : vocabulary_(static_cast<uint64_t>(vocabulary)) {}

  void fill(int64_t step, int, const MicroBatch& batch) override {
    const Rng rng = Rng(1, "tokens").derive(static_cast<uint64_t>(step));
    const auto draw = [&](std::string_view name, uint64_t first) {
      if (!batch.has(name)) return;
      for (int32_t& value : batch.values<int32_t>(name)) {
        value = static_cast<int32_t>(rng.bits(first++) % vocabulary_);
      }
    };
    draw(batch_field::kTokens, 0);
    draw(batch_field::kTargets, 1);
    if (batch.has(batch_field::kSegments)) {
      std::ranges::fill(batch.values<int32_t>(batch_field::kSegments), 0);
    }
  }
  int64_t first_sample(int) const override { return 0; }

 private:
  uint64_t vocabulary_;
};

}  // namespace ds::bench
