// ShmComm: collectives through memory that all ranks of one host see: ranks that are threads of one
// process, or processes that share a POSIX segment. Each rank reduces its slice straight from all
// inputs and writes it straight into all outputs where the tensors lie in memory(); other tensors
// pass through a staging area in pipelined chunks, and messages up to 4 KiB inside the control
// block.
//
// Before it touches data, every rank compares its call with its peers': a different operation, size
// or dtype is a CommError on every rank that names both sides. A wait ends with CommError when a
// peer dies, leaves, aborts, or does not come in time; the message then says where the peer is
// instead.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/contract/communicator.h"

namespace ds {

struct ShmOptions {
  enum class Path : uint8_t { kDirect, kStaged };  // kStaged: stage even what peers could read

  std::chrono::milliseconds timeout{30'000};  // longest wait for peers inside one call
  Path path = Path::kDirect;
  // Processes: address space reserved for memory(), per rank; pages are taken when used. 0: as much
  // as the host has memory.
  size_t arena_bytes = 0;
};

// One communicator per rank, for ranks that are threads of this process. memory() is the heap:
// every tensor is visible to every rank.
std::vector<std::unique_ptr<Communicator>> make_thread_group(int size,
                                                             const ShmOptions& options = {});

// This process's end of a group of processes on one host. `name` is a random name without slashes
// that the launcher gave to all ranks, one per launch. Rank 0 creates the segment (O_EXCL, 0600);
// the name is gone when this returns, and also the arenas have none, so a killed job leaves nothing
// behind. Throws CommError when a peer does not come in time, or the segment is not ours or not the
// right size; IoError where the system refuses something.
std::unique_ptr<Communicator> open_shm_group(const std::string& name, int rank, int size,
                                             const ShmOptions& options = {});

// 128 random bits as a segment name, for the launcher.
std::string random_shm_name();

}  // namespace ds
