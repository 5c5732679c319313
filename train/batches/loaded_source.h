// What batch sources that read a sample set with a loader have in common.
#pragma once

#include "data/data_loader.h"
#include "train/batches/batch_source.h"
#include "train/batches/sample_part.h"
#include "train/settings/observers.h"

namespace ds {

class LoadedSource : public BatchSource {
 public:
  int64_t first_sample(int micro_step) const final {
    return loader_.shape().first_index(micro_step, place_.rank);
  }
  // Who watches hears which samples they are from the rank that has the first part.
  void on_use(int64_t step, int micro_step) final {
    if (observer_ == nullptr || place_.part > 0 || place_.copy > 0) return;
    observer_->on_samples(step, micro_step, loader_.samples_of(step, micro_step));
  }

 protected:
  LoadedSource(const DataLoader& loader, const SamplePlace& place, StepObserver* observer)
      : loader_(loader), place_(place), observer_(observer) {}
  const DataLoader& loader() const { return loader_; }
  const SamplePlace& place() const { return place_; }

 private:
  const DataLoader loader_;
  const SamplePlace place_;
  StepObserver* const observer_;
};

}  // namespace ds
