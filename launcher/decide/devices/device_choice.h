// On what the ranks of a run compute (pure): what was asked for, what this build can and which GPUs
// the hosts have go in; the device, the GPU of every rank and the reasons come out. Refuses to put
// ranks on GPUs that are not there, and several on one unless that was asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/device.h"
#include "launcher/decide/placement.h"

namespace ds {

enum class DeviceWish { kAuto, kCpu, kCuda };
enum class GpuSharing { kRefused, kAllowed };

struct DeviceRequest {
  DeviceWish wish = DeviceWish::kAuto;
  GpuSharing sharing = GpuSharing::kRefused;
};

// What the ranks of a build can compute on beside the CPU.
enum class BuildDevices { kNone, kGpus, kEmulated };

// A GPU that a machine has.
struct PresentGpu {
  int index = 0;
  std::string uuid{};  // "GPU-..."; empty: not known
};

// GPUs as CUDA_VISIBLE_DEVICES names them: by index, "GPU-..." or "MIG-...".
struct VisibleGpus {
  std::vector<std::string> names{};
  std::string why_none{};  // where there are none
};

// Those of `present` that CUDA_VISIBLE_DEVICES leaves; null: it is not set. As CUDA reads it: up to
// the first entry that names none of them.
VisibleGpus visible_gpus(const std::vector<PresentGpu>& present, const char* variable);

// One host of a run.
struct HostGpus {
  std::string host{};  // as placements have it
  VisibleGpus all{};
  // What mpirun or srun left to each slot, by slot; empty: it told them nothing.
  std::vector<std::vector<std::string>> of_slots{};
};

struct RankDevices {
  Device device = Device::cpu();
  // These are the GPUs of each rank, for its CUDA_VISIBLE_DEVICES; empty: the ranks need none.
  std::vector<std::string> gpus{};
  std::vector<std::string> notes{};  // what was chosen and why, for the user
};

// Throws Unsupported where the build has no such device.
void require_device(DeviceWish wish, BuildDevices build);

// The device of a run on these hosts, each once, and why. Throws as require_device(), and
// Error(kClusterUnusable) where GPUs were asked for and missing, or only some hosts have them.
RankDevices choose_device(DeviceWish wish, BuildDevices build, const std::vector<HostGpus>& hosts);

// Slot i of a host gets the i-th of its GPUs, or, where slots are no positions in that list, the
// GPU of that number. Throws Error(kClusterUnusable) naming a host with too few of them.
RankDevices place_on_gpus(const std::vector<RankPlacement>& ranks,
                          const std::vector<HostGpus>& hosts, GpuSharing sharing);

// "NAME=value" by which a rank sees that GPU and no other. Numbers are those of NVML and of the
// device files, which CUDA has only when it is told to.
std::vector<std::string> gpu_variables(std::string_view name);

}  // namespace ds
