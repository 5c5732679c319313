// connect: from what a rank was told about its place to its world communicator.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/contract/communicator.h"
#include "comm/nccl/comm.h"
#include "comm/tcp/comm.h"

namespace ds {

struct ConnectOptions {
  // "shm": processes of one host. "tcp": processes that were told each other's endpoints. "mpi":
  // ranks that mpirun or srun started, all of them; MPI may number them otherwise. "nccl": the
  // ranks of a communicator of another backend, for what lies on their GPUs. "meta": nobody, for
  // the dry run.
  std::string backend = "shm";
  int rank = 0;
  int size = 1;
  std::string shm_name = {};  // "shm" with more than one rank: the launcher's random name
  struct Tcp {                // "tcp": see TcpWorld
    TcpListener listener = {};
    int64_t epoch = 1;
    std::vector<std::string> endpoints = {};
    std::string secret = {};
    std::shared_ptr<LinkBoard> board = nullptr;
  } tcp = {};
  struct OverHosts {                // "nccl"
    Communicator* hosts = nullptr;  // of the same ranks; must outlive the new one
    NcclOptions options = {};       // the timeout is this one's
  } nccl = {};
  std::chrono::milliseconds timeout{30'000};  // of every wait
};

// One rank alone shares memory with nobody: its memory() is the heap. Throws ConfigError for an
// unknown backend, Unsupported for one that this build lacks, and CommError when the ranks do not
// find each other.
std::unique_ptr<Communicator> connect(ConnectOptions options);

}  // namespace ds
