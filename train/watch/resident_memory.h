// The resident memory of this process since a baseline, as the kernel counts it: the proportional
// set size (proc(5), smaps_rollup), in which a page that several ranks map counts once for all of
// them. The plain resident size would count a shared bucket in every rank that ever read it.
#pragma once

#include "train/observers.h"

namespace ds {

class ResidentMemory final : public StepObserver {
 public:
  ResidentMemory();  // takes the baseline now
  // At the end of a run, all that training took is still held. Costs a walk over the page tables:
  // it is no part of a step.
  void before_exit(RunEnd end) override;
  void measure(Measured& measured) const override;  // rss_bytes_peak

 private:
  const int64_t baseline_;
  int64_t highest_;
};

}  // namespace ds
