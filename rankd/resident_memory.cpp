#include "rankd/resident_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace ds {
namespace {

// A field of /proc/self/status in bytes; 0 where the kernel has none.
int64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

}  // namespace

ResidentMemory::ResidentMemory() {
  std::ofstream("/proc/self/clear_refs") << "5";  // resets VmHWM (proc(5)); harmless where refused
  baseline_ = status_bytes("VmRSS");
}

int64_t ResidentMemory::bytes_above_baseline() const {
  return std::max<int64_t>(0, status_bytes("VmHWM") - baseline_);
}

}  // namespace ds
