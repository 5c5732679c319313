// The resident memory of this process since a baseline, as the kernel counts it.
#pragma once

#include <cstdint>

namespace ds {

class ResidentMemory {
 public:
  // Takes the baseline now, and starts the kernel's high-water mark afresh.
  ResidentMemory();
  // Highest resident size since, minus the baseline.
  int64_t bytes_above_baseline() const;

 private:
  int64_t baseline_ = 0;
};

}  // namespace ds
