#include "rankd/rank_device.h"

#include "comm/solo_comm.h"
#include "comm/staged_comm.h"

namespace ds {
namespace {

// What is made at first use, and not when a step is planned: words of flags, tables.
constexpr size_t kUnplannedBytes = size_t{1} << 20;

std::optional<DeviceBlocks> blocks_of(Device device, const BlockSizes& planned) {
  if (device.kind != Device::Kind::kCuda) return std::nullopt;
  return DeviceBlocks(device, {.device = planned.device + kUnplannedBytes,
                               .pinned = planned.pinned + kUnplannedBytes});
}

}  // namespace

DeviceCeilings ceilings_of(const JobPlan& job, const ZeroConfig& zero, DType dtype) {
  if (job.device.kind != Device::Kind::kCuda) return cpu_ceilings(job.threads, dtype);
  DeviceCeilings ceilings = cuda_ceilings(dtype);
  ceilings.overlaps_communication = zero.overlap_comm;
  return ceilings;
}

TensorTransport::TensorTransport(Communicator& world, const DeviceBlocks* blocks, int threads)
    : group_(&world) {
  if (blocks == nullptr) return;
  if (world.size() == 1) {
    own_ = std::make_unique<SoloComm>(*blocks->device);
    words_ = "one rank";
  } else {
    own_ = std::make_unique<StagedComm>(
        world, StagedOptions{.memory = blocks->device.get(), .pool = &pool_.emplace(threads)});
    words_ = "collectives through host memory";
  }
  group_ = own_.get();
}

RankDevice::RankDevice(const JobPlan& job, const BlockSizes& planned, bool overlaps_communication,
                       Communicator& world, const MeshSizes& sizes, const TracedComm::Sinks& sinks)
    : device_(job.device),
      blocks_(blocks_of(job.device, planned)),
      transport_(world, blocks_ ? &*blocks_ : nullptr, job.threads),
      connections_(Connections::over(world, transport_.group(), sizes, sinks)),
      workspace_({.device = job.device,
                  .threads = job.threads,
                  .overlaps_communication = overlaps_communication,
                  .blocks = blocks_ ? &*blocks_ : nullptr},
                 connections_.peers()) {}

std::string RankDevice::words() const {
  if (!blocks_) return "";
  return fmt::format("{}, {}", device_.to_string(), transport_.words());
}

}  // namespace ds
