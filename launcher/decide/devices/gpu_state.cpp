#include "launcher/decide/devices/gpu_state.h"

#include <algorithm>

namespace ds {
namespace {

const GpuState* find_part(const GpuReport& report, const std::string& name) {
  for (const GpuState& gpu : report.gpus) {
    const auto found = std::ranges::find_if(
        gpu.parts, [&](const GpuState& part) { return part.uuid.starts_with(name); });
    if (found != gpu.parts.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

const GpuState* find_gpu(const GpuReport& report, const std::string& name) {
  if (name.empty()) return nullptr;
  if (name.starts_with("MIG-")) return find_part(report, name);
  const auto found = std::ranges::find_if(report.gpus, [&](const GpuState& gpu) {
    return std::to_string(gpu.index) == name ||
           (name.starts_with("GPU-") && gpu.uuid.starts_with(name));
  });
  return found == report.gpus.end() ? nullptr : &*found;
}

}  // namespace ds
