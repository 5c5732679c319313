#include "launcher/decide/devices/gpu_state.h"

#include <algorithm>

namespace ds {

const GpuState* find_gpu(const GpuReport& report, const std::string& name) {
  if (name.empty()) return nullptr;
  const auto found = std::ranges::find_if(report.gpus, [&](const GpuState& gpu) {
    return std::to_string(gpu.index) == name ||
           (name.starts_with("GPU-") && gpu.uuid.starts_with(name));
  });
  return found == report.gpus.end() ? nullptr : &*found;
}

}  // namespace ds
