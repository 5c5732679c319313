// Workspace: the memory, threads and stream of one rank on one device, with one account per tier:
// heap and shared memory are on the same one, so that the peak is that of both together.
#pragma once

#include <array>

#include "comm/peers.h"
#include "core/index.h"
#include "core/memory/adaptors.h"
#include "core/stream.h"
#include "train/engine.h"

namespace ds {

class Workspace {
 public:
  // What the peers refer to must outlive the workspace: tensors may lie in the data group's memory.
  Workspace(Device device, int threads, const Peers& peers, Trace* trace = nullptr)
      : heap_(device.is_meta() ? static_cast<MemoryResource&>(meta_) : host_, account(device)),
        shared_(peers.data().memory(), account(device)),
        pool_(device.is_meta() ? 1 : threads),
        stream_({.device = device, .memory = &heap_, .pool = &pool_, .trace = trace}),
        peers_(peers) {}

  RankResources resources() {
    const bool computes_later = stream_.device().kind == Device::Kind::kCuda;
    return {.stream = stream_,
            .peers = peers_,
            .comm_memory = shared_,
            .results_late = computes_later ? 1 : 0};
  }
  Stream& stream() { return stream_; }
  MemoryResource& heap() { return heap_; }
  // Where tensors of the stream's device lie.
  Tier tier() const { return tier_of(stream_.device()); }
  TierUsage usage() const {
    TierUsage usage;
    for (int tier = 0; tier < kTiers; ++tier) nth(usage, tier) = nth(accounts_, tier).usage();
    return usage;
  }

 private:
  static Tier tier_of(Device device) {
    return device.kind == Device::Kind::kCuda ? Tier::kDevice : Tier::kHost;
  }
  MemoryAccount& account(Device device) { return nth(accounts_, tier_of(device)); }

  HostMemory host_;
  MetaMemory meta_;
  std::array<MemoryAccount, kTiers> accounts_;
  TrackingMemory heap_;
  TrackingMemory shared_;
  ThreadPool pool_;
  Stream stream_;
  const Peers peers_;
};

}  // namespace ds
