// Random tokens instead of a data set, for the benchmarks of training.
#pragma once

#include "core/rng.h"
#include "train/engine.h"

namespace ds::bench {

class RandomTokens final : public BatchSource {
 public:
  explicit RandomTokens(int32_t vocabulary) : vocabulary_(static_cast<uint64_t>(vocabulary)) {}

  void fill(int64_t step, int, std::span<int32_t> tokens, std::span<int32_t> targets) override {
    const Rng rng = Rng(1, "tokens").derive(static_cast<uint64_t>(step));
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(rng.bits(i) % vocabulary_);
      targets[i] = static_cast<int32_t>(rng.bits(i + 1) % vocabulary_);
    }
  }
  int64_t first_sample(int) const override { return 0; }

 private:
  uint64_t vocabulary_;
};

}  // namespace ds::bench
