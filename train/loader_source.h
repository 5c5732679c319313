// Batches of a sample set as the engine takes them. Who watches hears which samples they are.
#pragma once

#include "data/data_loader.h"
#include "train/batch_source.h"
#include "train/observers.h"

namespace ds {

class LoaderSource final : public BatchSource {
 public:
  // `observer`: null where nobody listens, as in an evaluation.
  LoaderSource(const SampleSet& samples, const Sampler& sampler, const BatchShape& shape, int rank,
               StepObserver* observer)
      : loader_(samples, sampler, shape, rank), rank_(rank), observer_(observer) {}

  void fill(int64_t step, int micro_step, std::span<int32_t> tokens,
            std::span<int32_t> targets) override;
  int64_t first_sample(int micro_step) const override;
  void on_use(int64_t step, int micro_step) override;

 private:
  DataLoader loader_;
  const int rank_;
  StepObserver* const observer_;
};

}  // namespace ds
