// Workspace: the memory, threads and streams of one rank on one device, with one account per tier:
// heap and shared memory are on the same one, so that the peak is that of both together. A CPU
// plays both parts: what tensors of its stream take is the device's, what is offloaded the host's,
// each with a limit of its own.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "comm/peers.h"
#include "core/device/stream.h"
#include "core/memory/adaptors.h"
#include "core/values/index.h"
#include "train/engine.h"
#include "train/step/workspace_tiers.h"

namespace ds {

struct WorkspaceOptions {
  Device device = Device::cpu();
  Device stands_for = Device::cpu();  // of meta: what is planned for
  int threads = 1;
  int updater_threads = 0;  // of who updates offloaded state ahead of the norm; 0: nobody does
  Trace* trace = nullptr;
  // What talks to peers has a stream of its own, beside the one that computes, and what it is given
  // is told to a trace of its own; on a CPU a thread of its own, and no trace. What a device passes
  // round a ring has that stream, or another.
  bool overlaps_communication = false;
  Trace* communication_trace = nullptr;
  // These trace copies between tiers beside a device, and the disk that a meta run plans for.
  Trace* saves_trace = nullptr;
  Trace* fetches_trace = nullptr;
  Trace* disk_trace = nullptr;
  // These trace the host beside a device, and the threads that update ahead there; a CPU that plays
  // both parts has one time for all. If host_trace is null, the host has the device's trace.
  Trace* host_trace = nullptr;
  Trace* updater_trace = nullptr;
  BackgroundLog* beside = nullptr;  // told of what all streams do beside computing; outlives them
  const DeviceBlocks* blocks = nullptr;  // of a CUDA device; they outlive the workspace
  MemoryLimits limits{};
  // What others have of pinned memory, for usage() to tell.
  size_t pinned_beside = 0;
};

class Workspace {
 public:
  // What the peers refer to must outlive the workspace: on a CPU, tensors may lie in the data
  // group's memory.
  Workspace(const WorkspaceOptions& options, const Peers& peers);
  // Makes the workspace of a CPU, or of meta that stands for one.
  Workspace(Device device, int threads, const Peers& peers, Trace* trace = nullptr)
      : Workspace({.device = device, .threads = threads, .trace = trace}, peers) {}

  RankResources resources();
  Stream& stream() { return stream_; }
  MemoryResource& heap() { return heap_; }
  Stream& host_stream() { return host_stream_; }
  TierUsage usage() const;
  // On meta: the blocks that all there was so far fits into.
  BlockSizes planned_blocks() const { return tiers_->planned_blocks(); }

 private:
  struct Talk {  // with peers, of a CPU
    Talk(MemoryResource& memory, int threads)
        : pool(threads), stream({.memory = &memory, .pool = &pool}), thread(stream) {}
    ThreadPool pool;
    Stream stream;
    CommThread thread;
  };
  bool has_device() const { return tiers_->stands_for().kind == Device::Kind::kCuda; }
  void add_updater(const WorkspaceOptions& options);
  void add_communication(const WorkspaceOptions& options);
  void report_background_to(BackgroundLog& log);
  StreamOptions options_of_stream(Trace* trace);

  const Device device_;
  const std::unique_ptr<WorkspaceTiers> tiers_;
  const size_t pinned_beside_;
  std::array<MemoryAccount, kTiers> accounts_;
  TrackingMemory heap_;
  TrackingMemory shared_;
  TrackingMemory beside_;  // of the host, for what is offloaded
  TrackingMemory pinned_;
  ThreadPool pool_;
  std::optional<ThreadPool> updater_pool_;
  Stream stream_;
  Stream host_stream_;
  struct SideStreams {
    std::optional<Stream> communication, passes, copies, saves, fetches, disk, updater;
  } side_;
  std::optional<Talk> talk_;
  const Peers peers_;
};

}  // namespace ds
