#include "train/loader_source.h"

#include <algorithm>

namespace ds {

void LoaderSource::fill(int64_t step, int micro_step, std::span<int32_t> tokens,
                        std::span<int32_t> targets) {
  const Batch batch = loader_.next(step, micro_step);
  std::copy_n(batch.tokens.data<int32_t>(), tokens.size(), tokens.begin());
  std::copy_n(batch.targets.data<int32_t>(), targets.size(), targets.begin());
}

int64_t LoaderSource::first_sample(int micro_step) const {
  return loader_.shape().first_index(micro_step, rank_);
}

void LoaderSource::on_use(int64_t step, int micro_step) {
  if (observer_ == nullptr) return;
  observer_->on_samples(step, micro_step, loader_.samples_of(step, micro_step));
}

}  // namespace ds
