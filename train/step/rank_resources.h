// RankResources says where one rank computes, and with whom.
#pragma once

#include <vector>

#include "comm/calls/recorded_calls.h"
#include "comm/peers.h"
#include "model/parallel/parallel.h"
#include "zero/shard_group.h"
#include "zero/state/offloaded_weights.h"

namespace ds {

struct RankResources {
  Stream& stream;
  // This is the CPU's stream, with the host's memory beside the device: what is offloaded lies and
  // is updated there. On a CPU the device is played, and this is the host that it copies to and
  // from.
  Stream& host;
  Peers peers;
  MemoryResource& comm_memory;  // what peers can read, accounted like everything else
  // Weights are gathered and gradients reduced here while `stream` computes; null: on `stream`, in
  // turn.
  Stream* communication = nullptr;
  // Keys and values pass round a ring here while `stream` computes; null: on `stream`, in turn. If
  // `communication` is there, it is that one: all calls to peers are in one order then, as they are
  // without it, because the stream that computes waits for what is passed.
  Stream* ring_messages = nullptr;
  // On a CPU this thread does the work of `communication`; null: it is done where it is given.
  CommThread* comm_thread = nullptr;
  // Batches are copied to the device here while `stream` computes; null: on `stream`, in turn.
  Stream* copies = nullptr;
  // Host memory that the device copies to and from while the host goes on; null on a CPU.
  MemoryResource* pinned = nullptr;
  // On these streams activations are copied to the host and back, and slices of weights to the
  // device, while the others compute and talk to peers; null: on those, in turn.
  Stream* saves = nullptr;
  Stream* fetches = nullptr;
  // On meta, the clock of the swap file, and its books everywhere.
  Stream* disk = nullptr;
  MemoryAccount* nvme = nullptr;
  // The thread that updates offloaded state ahead of the norm has this stream of the host; null: no
  // thread does.
  Stream* updater = nullptr;
  // Make the files that weights and optimizer state are swapped to; null: there is none.
  std::function<std::unique_ptr<Swapper>(int64_t bytes)> open_weight_swap = nullptr;
  std::function<std::unique_ptr<Swapper>(int64_t bytes)> open_state_swap = nullptr;
  // Groups tell this what of their calls is recorded into graphs; null: they tell nothing.
  RecordedCalls* recorded = nullptr;
  // How many steps may be begun before the result of one is taken: 0 where it is there as soon as
  // the step has been begun, as on the CPU; 1 where the device computes while the host goes on.
  int results_late = 0;

  OffloadPlace state_place() const {
    return {.host = &host,
            .updater = updater,
            .pinned = pinned,
            .nvme = nvme,
            .disk = disk,
            .open_swap = open_state_swap};
  }
  StoreStreams streams() const {
    return {stream, communication != nullptr ? *communication : stream, comm_thread};
  }
  // For what is offloaded.
  MemoryResource& host_memory() const { return pinned != nullptr ? *pinned : host.memory(); }
  WeightPlaces weight_places() const {
    return {.fetches = fetches,
            .host = &host_memory(),
            .is_pinned = pinned != nullptr,
            .nvme = nvme,
            .disk = disk,
            .open_swap = open_weight_swap};
  }
  // Unsupported where the mesh has ranks along two axes that do not go together.
  void require_known_mesh() const;
  // Those that share the work of the model. shares_rows: see ParallelOptions.
  Parallel parallel(bool shares_rows = false) const;
  // Ranks that have other layers of the model; null: this one has all of them.
  Communicator* pipe() const { return parallel().group(Axis::kPipe); }
  // Those whose calls are part of steps.
  std::vector<Communicator*> groups() const;
  bool are_recordable() const;  // into graphs
  // Whether ranks that exchange heads or share layers talk on one stream while gradients and
  // weights travel on another: no graph says which of these calls is first, and all ranks have to
  // agree. What passes round a ring is in the order of one of the two (ring_messages).
  bool talk_on_two_streams() const;
};

}  // namespace ds
