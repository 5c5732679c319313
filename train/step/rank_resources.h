// Where one rank computes, and with whom.
#pragma once

#include "comm/peers.h"
#include "comm/recorded_calls.h"
#include "zero/shard_group.h"

namespace ds {

struct RankResources {
  Stream& stream;
  // Of the CPU, whose memory is the host's beside the device: where what is offloaded lies and is
  // updated. On a CPU the device is played, and this is the host that it copies to and from.
  Stream& host;
  Peers peers;
  MemoryResource& comm_memory;  // what peers can read, accounted like everything else
  // Where weights are gathered and gradients reduced while the other computes; null: there, in
  // turn.
  Stream* communication = nullptr;
  // Where batches are copied to the device while the other computes; null: there, in turn.
  Stream* copies = nullptr;
  // Host memory that the device copies to and from while the host goes on; null on a CPU.
  MemoryResource* pinned = nullptr;
  // Where optimizer state may be swapped to; null: nowhere.
  const SwapSpace* swap = nullptr;
  // Where groups tell what of their calls is recorded into graphs; null: nowhere.
  RecordedCalls* recorded = nullptr;
  // How many steps may be begun before the result of one is taken: 0 where it is there as soon as
  // the step has been begun, as on the CPU; 1 where the device computes while the host goes on.
  int results_late = 0;

  OffloadPlace offload() const { return {.host = &host, .pinned = pinned, .swap = swap}; }
  StoreStreams streams() const {
    return {stream, communication != nullptr ? *communication : stream};
  }
  // Unsupported where the mesh has ranks along another axis: the engine's program is that of one
  // stage, and its sums are gathered over data.
  void require_data_only() const;
};

}  // namespace ds
