// MpiComm: collectives over MPI, for CPU ranks on many hosts and inside any MPI batch job. Data
// moves by nonblocking point-to-point messages that are polled with a deadline; sums are made by
// our own reduction in rank order, so the bits equal those of shared memory. Where this build has
// no MPI, the functions exist all the same: two say so, the other throws.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/contract/communicator.h"

namespace ds {

struct MpiOptions {
  std::chrono::milliseconds timeout{30'000};  // longest time without any message coming through
  // Ranks of the world are numbered by it, those of one place as MPI does. mpirun may have put
  // neighbours on different hosts, where somebody else wants them on one.
  int place = 0;
};

bool built_with_mpi();
std::string mpi_library();  // "Open MPI v4.1.4" as it was loaded; empty without MPI
// Whether it says that it takes memory of CUDA devices. Once a world is open; a library that has no
// way to say so counts as one that does not.
bool mpi_takes_cuda_memory();

// All ranks of MPI_COMM_WORLD. Initialises MPI (THREAD_MULTIPLE) unless somebody has, and then also
// finalises it with the last communicator. Collective. Throws Unsupported without MPI.
// After a failure, or when an exception ends the communicators, MPI is left as it is: end the
// process, which makes mpirun end the others.
std::unique_ptr<Communicator> open_mpi_world(const MpiOptions& options = {});

}  // namespace ds
