// What one rank of a test computes with: either the product's workspace, or memory that is closed
// to the host while a step runs, as a GPU's is always.
#pragma once

#include "comm/peers.h"
#include "tests/support/gated_comm.h"
#include "tests/support/guarded_memory.h"
#include "train/workspace.h"

namespace ds::testing {

enum class HostAccess : uint8_t {
  kAlways,
  kBetweenSteps,  // during a step only kernels, copies and collectives have it
};

class PlainRank {
 public:
  explicit PlainRank(Communicator& comm)
      : connections_(Connections::over(comm, {.data = comm.size()})),
        workspace_(Device::cpu(), 1, connections_.peers()) {}

  RankResources resources() { return workspace_.resources(); }
  MemoryUsage usage() const { return nth(workspace_.usage(), Tier::kHost); }
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
  explicit GuardedRank(Communicator& comm)
      : comm_(comm, memory_), connections_(Connections::over(comm_, {.data = comm.size()})) {}

  RankResources resources() {
    return {.stream = stream_, .peers = connections_.peers(), .comm_memory = shared_};
  }
  MemoryUsage usage() const { return account_.usage(); }
  template <class Step>
  auto run(const Step& step) {
    const ClosedToHost closed(memory_);
    return step();
  }

 private:
  GuardedMemory memory_;
  MemoryAccount account_;
  TrackingMemory heap_{memory_, account_};
  TrackingMemory shared_{memory_, account_};
  ThreadPool pool_{1};
  Stream stream_{{.device = Device::cpu(), .memory = &heap_, .pool = &pool_, .gate = &memory_}};
  GatedComm comm_;
  Connections connections_;
};

// body(rank): a PlainRank or a GuardedRank.
template <class Body>
void with_rank(Communicator& comm, HostAccess access, const Body& body) {
  if (access == HostAccess::kAlways) {
    PlainRank rank(comm);
    body(rank);
  } else {
    GuardedRank rank(comm);
    body(rank);
  }
}

}  // namespace ds::testing
