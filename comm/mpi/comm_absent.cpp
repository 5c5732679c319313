// The MPI communicator of a build without MPI.
#include "comm/mpi/comm.h"

namespace ds {

bool built_with_mpi() { return false; }

std::string mpi_library() { return {}; }

bool mpi_takes_cuda_memory() { return false; }

std::unique_ptr<Communicator> open_mpi_world(const MpiOptions& /*options*/) {
  throw Unsupported(
      "mpi: this build has no MPI communicator; install libopenmpi-dev and build with "
      "DS_WITH_MPI=ON");
}

}  // namespace ds
