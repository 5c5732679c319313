// A source of random tokens, for steps of which nothing but their time and memory is wanted: all
// fields of a batch are what the step takes, whatever they say.
#pragma once

#include <string_view>

#include "config/families/list.h"
#include "core/values/rng.h"
#include "train/batches/batch_source.h"

namespace ds {

class AnyBatch final : public BatchSource {
 public:
  AnyBatch(const ModelConfig& model, std::string_view purpose);
  // Others in each step.
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override;
  int64_t first_sample(int /*micro_step*/) const override { return 0; }

 private:
  const uint64_t vocabulary_, scores_;
  const Rng rng_;
};

}  // namespace ds
