// The resident memory of this process since a baseline, as the kernel counts it: the proportional
// set size (proc(5), smaps_rollup), in which a page that several ranks map counts once for all of
// them. The plain resident size would count a shared bucket in every rank that ever read it.
#pragma once

#include <cstdint>

namespace ds {

class ResidentMemory {
 public:
  ResidentMemory();  // takes the baseline now
  // Looks now, and remembers the highest. Costs a walk over the page tables: call it between steps,
  // not in one.
  void sample();
  int64_t bytes_above_baseline() const;

 private:
  int64_t baseline_ = 0;
  int64_t highest_ = 0;
};

}  // namespace ds
