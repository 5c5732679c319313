// NcclComm: collectives between GPUs by NCCL, which is opened at run time (core/libraries/nccl.h).
// A call gives its work to the stream and returns; nothing here waits for a stream, so calls can be
// recorded into a graph, once each kind of call has been made outside of one.
//
// * The hosts talk over a communicator that they have anyway (shm, tcp, mpi): NCCL's id and version
//   travel over it, late ranks are named by it, barrier() is its barrier, and peers hear of an
//   abort() by it.
// * A watchdog looks after each group from a thread of its own: errors of NCCL that come late,
//   calls that the stream has reached but not done within the timeout, and peers that gave up. Any
//   of them ends NCCL's kernels (ncclCommAbort), so that who waits for the stream goes on, to find
//   check() and the next call throw a CommError that names the call. Calls of a graph that is
//   replayed are not known to it one by one.
// * Calls on which the ranks disagree are not noticed as such, as they are by the CPU's transports:
//   they end with the timeout.
// * A send may hold up its stream until its receiver has come, as soon as it is larger than NCCL's
//   buffers: who sends and receives in turn needs a group and a stream for each direction, or
//   exchange(), which is one call.
// * NCCL has no reduction from bf16 or fp16 into fp32. For sums and averages slices are exchanged
//   as they are, and added up in fp32 in rank order, in `scratch_bytes` of the device's memory.
#pragma once

#include <chrono>
#include <memory>

#include "comm/contract/communicator.h"

namespace ds {

struct NcclOptions {
  Device device = Device::cuda(0);
  MemoryResource* memory = nullptr;           // of the device; must outlive the communicator
  std::chrono::milliseconds timeout{30'000};  // of every wait
  std::chrono::milliseconds watch_every{50};
  size_t scratch_bytes = size_t{16} << 20;  // taken from `memory` at the first use
  // The device's memory as one block, where it is one: registered with NCCL, which then may read
  // and write it without copies of its own.
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  } block{};
};

// Collective over `hosts`, whose ranks the new communicator has; it must outlive that. Unsupported
// where this build or a rank's machine has no NCCL, or one older than 2.19; CommError when the
// ranks do not find each other within the timeout, or do not have the same NCCL.
std::unique_ptr<Communicator> open_nccl_group(Communicator& hosts, const NcclOptions& options);

}  // namespace ds
