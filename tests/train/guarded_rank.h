// What one rank of a test computes with: either the product's workspace, or memory that is closed
// to the host while a step runs, as a GPU's is always.
#pragma once

#include <optional>

#include "comm/nccl/comm.h"
#include "comm/peers.h"
#include "comm/solo_comm.h"
#include "comm/staged_comm.h"
#include "core/index.h"
#include "kernels/gemm/matmul.h"
#include "tests/support/gated_comm.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/test_device.h"
#include "train/workspace.h"

namespace ds::testing {

enum class HostAccess : uint8_t {
  kAlways,
  kBetweenSteps,  // during a step only kernels, copies and collectives have it
  kNever,         // the memory is that of a device
};

class PlainRank {
 public:
  PlainRank(Communicator& comm, const MeshSizes& sizes)
      : connections_(Connections::over(comm, sizes)),
        workspace_({.updater_threads = 1}, connections_.peers()) {}

  RankResources resources() { return workspace_.resources(); }
  TierUsage tiers() const { return workspace_.usage(); }
  template <class Step>
  auto run(const Step& step) {
    return step();
  }

 private:
  Connections connections_;
  Workspace workspace_;
};

// Blocks of the transport's shared segment cannot be protected rank by rank, so memory for
// collectives comes from the guarded mapping as well; ranks that are threads read it there.
class GuardedRank {
 public:
  GuardedRank(Communicator& comm, const MeshSizes& sizes)
      : comm_(comm, memory_), connections_(Connections::over(comm_, sizes)) {}

  RankResources resources() {
    return {.stream = stream_,
            .host = host_,
            .peers = connections_.peers(),
            .comm_memory = shared_,
            .nvme = &swapped_};
  }
  TierUsage tiers() const {
    TierUsage usage{};
    nth(usage, Tier::kDevice) = account_.usage();
    return usage;
  }
  template <class Step>
  auto run(const Step& step) {
    const ClosedToHost closed(memory_);
    return step();
  }

 private:
  GuardedMemory memory_;
  MemoryAccount account_, swapped_;
  TrackingMemory heap_{memory_, account_};
  TrackingMemory shared_{memory_, account_};
  ThreadPool pool_{1};
  Stream stream_{{.device = Device::cpu(), .memory = &heap_, .pool = &pool_, .gate = &memory_}};
  HostMemory beside_;
  // What it updates writes weights to where they are used.
  Stream host_{{.device = Device::cpu(), .memory = &beside_, .pool = &pool_, .gate = &memory_}};
  GatedComm comm_;
  Connections connections_;
};

enum class Devices : uint8_t {
  kShared,  // of the device that the tests were told to run on, through memory of the host
  kOwn      // counted from that one, over groups that can be recorded
};

class DeviceRank {
 public:
  DeviceRank(Communicator& comm, Devices devices, const MeshSizes& sizes)
      : device_(devices == Devices::kOwn ? Device::cuda(test_device().device.index + comm.rank())
                                         : test_device().device),
        group_(group_of(comm, devices)),
        connections_(Connections::over(comm, *group_, sizes)),
        workspace_({.device = device_,
                    .updater_threads = 1,
                    .overlaps_communication = true,
                    .blocks = &blocks_},
                   connections_.peers()) {}

  RankResources resources() { return workspace_.resources(); }
  TierUsage tiers() const { return workspace_.usage(); }
  template <class Step>
  auto run(const Step& step) {
    return step();
  }

 private:
  std::unique_ptr<Communicator> group_of(Communicator& comm, Devices devices) {
    MemoryResource* const memory = blocks_.device.get();
    if (devices == Devices::kShared) {
      return std::make_unique<StagedComm>(
          comm, StagedOptions{.memory = memory, .pool = &pool_, .pinned_bytes = 1 << 16});
    }
    if (comm.size() == 1) return std::make_unique<SoloComm>(*memory);
    return open_nccl_group(comm,
                           {.device = device_, .memory = memory, .scratch_bytes = size_t{1} << 20});
  }

  const Device device_;
  DeviceBlocks blocks_{
      device_,
      {.device = (size_t{24} << 20) + to_size(kernels::matmul_scratch_bytes(device_)),
       .pinned = size_t{8} << 20}};
  ThreadPool pool_{1};
  const std::unique_ptr<Communicator> group_;
  Connections connections_;
  Workspace workspace_;
};

// body(rank): a PlainRank, a GuardedRank or a DeviceRank. Without sizes all ranks lie along data.
template <class Body>
void with_rank(Communicator& comm, HostAccess access, const Body& body,
               Devices devices = Devices::kShared,
               const std::optional<MeshSizes>& mesh = std::nullopt) {
  const MeshSizes sizes = mesh.value_or(MeshSizes{.data = comm.size()});
  if (access == HostAccess::kAlways) {
    PlainRank rank(comm, sizes);
    body(rank);
  } else if (access == HostAccess::kBetweenSteps) {
    GuardedRank rank(comm, sizes);
    body(rank);
  } else {
    DeviceRank rank(comm, devices, sizes);
    body(rank);
  }
}

}  // namespace ds::testing
