// RankDevice: what a rank computes on and how its tensors reach the other ranks: memory in blocks
// of the planned size, streams, and the groups of the mesh.
#pragma once

#include <optional>
#include <string>

#include "comm/peers.h"
#include "config/config.h"
#include "core/files/file.h"
#include "rankd/device/tensor_path.h"
#include "train/plan/dry_run.h"
#include "train/settings/job.h"
#include "train/workspace.h"

namespace ds {

// Returns the ceilings of a GPU and its host, for ranks that train with these options on one GPU
// each, with so many threads.
DeviceCeilings cuda_ceilings(const EngineOptions& options, const Config& config, int ranks,
                             int threads);

// Returns the ceilings of a CPU on which ranks of such a mesh train with these options.
DeviceCeilings cpu_ceilings(const EngineOptions& options, const Config& config,
                            const MeshSizes& mesh, int threads);

// Who carries tensors. On a CPU that is the group that carries everything else; those of a device
// go as choose_tensor_path() says.
class TensorTransport {
 public:
  // world: of the hosts; it and the blocks, without which a rank computes on a CPU, outlive this.
  // Collective over `world`. Throws what choose_tensor_path() and the groups throw.
  TensorTransport(const JobPlan& job, NcclWish wish, Communicator& world,
                  const DeviceBlocks* blocks);

  Communicator& group() { return *group_; }
  const std::string& description() const { return description_; }  // for people; empty on a CPU
  size_t pinned_bytes() const { return pinned_bytes_; }            // that it has beside the blocks

 private:
  std::optional<ThreadPool> pool_;
  std::unique_ptr<Communicator> own_;  // null: the group is another's
  Communicator* group_;
  std::string description_;
  size_t pinned_bytes_ = 0;
};

struct RankDeviceOptions {
  BlockSizes planned{};
  bool overlaps_communication = false;
  NcclWish nccl = NcclWish::kIfPossible;
  MemoryLimits limits{};
  bool tunes_matmul = false;
  Trace* trace = nullptr;           // of the stream that computes
  BackgroundLog* beside = nullptr;  // of all streams
  int updater_threads = 0;
};

class RankDevice {
 public:
  // world: of the hosts, which outlives this. Collective over it. OutOfMemory where the device has
  // not what was planned.
  RankDevice(const JobPlan& job, const RankDeviceOptions& options, Communicator& world,
             const MeshSizes& sizes, const TracedComm::Sinks& sinks);

  Workspace& workspace() { return workspace_; }
  Peers peers() { return connections_.peers(); }
  // Returns null unless products have choices and are to be tuned.
  kernels::MatmulChoices* matmul_choices() { return choices_ ? &*choices_ : nullptr; }
  // What a person is to know of it, for a job of that kind; empty on a CPU.
  std::string description(const EngineOptions& options);

 private:
  std::string_view graph_words(const EngineOptions& options);
  std::string attention_words(const EngineOptions& options);
  std::string product_words(const EngineOptions& options) const;

  const Device device_;
  const bool tunes_matmul_;
  RealFileSystem files_;
  std::optional<kernels::MatmulChoices> choices_;
  const std::optional<DeviceBlocks> blocks_;  // nothing on a CPU
  TensorTransport transport_;
  Connections connections_;
  Workspace workspace_;
};

}  // namespace ds
