// Workspace: the memory, threads and stream of one rank on one device, with one account over heap
// and shared memory, so that the peak is that of both together.
#pragma once

#include "comm/peers.h"
#include "core/memory/adaptors.h"
#include "core/stream.h"
#include "train/engine.h"

namespace ds {

class Workspace {
 public:
  // What the peers refer to must outlive the workspace: tensors may lie in the data group's memory.
  Workspace(Device device, int threads, const Peers& peers, Trace* trace = nullptr)
      : heap_(device.is_meta() ? static_cast<MemoryResource&>(meta_) : host_, account_),
        shared_(peers.data().memory(), account_),
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
  MemoryUsage usage() const { return account_.usage(); }

 private:
  HostMemory host_;
  MetaMemory meta_;
  MemoryAccount account_;
  TrackingMemory heap_;
  TrackingMemory shared_;
  ThreadPool pool_;
  Stream stream_;
  const Peers peers_;
};

}  // namespace ds
