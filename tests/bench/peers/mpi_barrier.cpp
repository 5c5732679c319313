// The same as barrier_rank, started by mpirun.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "tests/bench/collectives/barrier_stamp.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  ds::bench::note_barrier();
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
