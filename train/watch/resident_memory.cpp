#include "train/watch/resident_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace ds {
namespace {

// Bytes; 0 where the kernel does not tell.
int64_t proportional_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Pss:")) return std::stoll(line.substr(4)) * 1024;
  }
  return 0;
}

}  // namespace

ResidentMemory::ResidentMemory() : baseline_(proportional_bytes()), highest_(baseline_) {}

void ResidentMemory::before_exit(RunEnd /*end*/) {
  highest_ = std::max(highest_, proportional_bytes());
}

void ResidentMemory::measure(Measured& measured) const {
  measured.rss_bytes_peak = highest_ - baseline_;
}

}  // namespace ds
