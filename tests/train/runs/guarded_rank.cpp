#include "tests/train/runs/guarded_rank.h"

#include "comm/nccl/comm.h"
#include "comm/peers.h"
#include "comm/solo_comm.h"
#include "comm/staged_comm.h"
#include "core/values/index.h"
#include "kernels/matmul/matmul.h"
#include "tests/support/gated_comm.h"
#include "tests/support/guarded_memory.h"

namespace ds::testing {
namespace {

class PlainRank final : public TestRank {
 public:
  PlainRank(Communicator& comm, const MeshSizes& sizes)
      : connections_(Connections::over(comm, sizes)),
        workspace_({.updater_threads = 1}, connections_.peers()) {}

  RankResources resources() override { return workspace_.resources(); }
  TierUsage tiers() const override { return workspace_.usage(); }

 private:
  Connections connections_;
  Workspace workspace_;
};

// Blocks of the transport's shared segment cannot be protected rank by rank, so memory for
// collectives comes from the guarded mapping as well; ranks that are threads read it there.
class GuardedRank final : public TestRank {
 public:
  GuardedRank(Communicator& comm, const MeshSizes& sizes)
      : comm_(comm, memory_), connections_(Connections::over(comm_, sizes)) {}

  RankResources resources() override {
    return {.stream = stream_,
            .host = host_,
            .peers = connections_.peers(),
            .comm_memory = shared_,
            .nvme = &swapped_};
  }
  TierUsage tiers() const override {
    TierUsage usage{};
    nth(usage, Tier::kDevice) = account_.usage();
    return usage;
  }
  void run_closed(const std::function<void()>& body) override {
    const ClosedToHost closed(memory_);
    body();
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

class DeviceRank final : public TestRank {
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

  RankResources resources() override { return workspace_.resources(); }
  TierUsage tiers() const override { return workspace_.usage(); }

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

}  // namespace

std::unique_ptr<TestRank> plain_rank(Communicator& comm) {
  return std::make_unique<PlainRank>(comm, MeshSizes{.data = comm.size()});
}

void with_rank(Communicator& comm, HostAccess access, const std::function<void(TestRank&)>& body,
               Devices devices, const std::optional<MeshSizes>& mesh) {
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
