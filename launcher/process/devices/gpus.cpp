#include "launcher/process/devices/gpus.h"

#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/status/error.h"
#include "launcher/process/devices/gpu_reader.h"
#include "proto/build_info.h"

namespace ds {
namespace {

int device_files() {
  constexpr std::string_view kPrefix = "nvidia";
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    int index = 0;
    const char* const end = name.data() + name.size();
    if (name.starts_with(kPrefix)) {
      const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, index);
      count += parsed.ec == std::errc() && parsed.ptr == end ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

// Lists the GPUs that answer to NVML. Without NVML it numbers the device files from 0: a container
// may have the file of one GPU alone, whatever its number, and CUDA counts from 0 there.
std::vector<PresentGpu> present_gpus() {
  std::vector<PresentGpu> out;
  try {
    for (const GpuState& gpu : GpuReader().sample().gpus) {
      if (gpu.problem.empty()) out.push_back({.index = gpu.index, .uuid = gpu.uuid});
    }
    return out;
  } catch (const Unsupported&) {
    // Nobody to ask: what lies in /dev is all that is known.
  }
  for (int index = 0; index < device_files(); ++index) out.push_back({.index = index});
  return out;
}

BuildDevices build_devices() {
  const BuildInfo build = build_info();
  if (emulates_cuda(build)) return BuildDevices::kEmulated;
  return build.has_cuda ? BuildDevices::kGpus : BuildDevices::kNone;
}

VisibleGpus own_gpus(const char* variable) { return visible_gpus(present_gpus(), variable); }

}  // namespace ds
