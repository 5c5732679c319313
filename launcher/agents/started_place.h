// How this process was started (pure): by hand, or by mpirun or srun as one of many, and then which
// of them. The environment is a map; nothing is read from the process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/decide/environment.h"

namespace ds {

// One of several dslaunch that mpirun or srun has started for one job.
struct StartedPlace {
  std::string_view starter;  // "mpirun" or "srun"
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string host;  // as the starter calls it, empty where it does not say
  std::string job;   // the same for all of them and no other job; empty where nothing says so
  bool leads_host() const { return local_rank == 0; }
  bool is_launcher() const { return rank == 0; }
  friend bool operator==(const StartedPlace&, const StartedPlace&) = default;
};

// Nothing where this is the only one: started by hand, by a job script (which has the variables of
// its tasks, and is one process), in an interactive step of one task, or as the only process of
// mpirun. Open MPI, MVAPICH, PALS and Hydra (MPICH, Intel MPI) are asked before Slurm, in whose
// steps they may themselves have been started. Throws UsageError, naming the variables, where they
// are incomplete or contradict each other, RANK, WORLD_SIZE, LOCAL_RANK, PMIX_RANK, PMI_RANK and
// PMI_SIZE included.
std::optional<StartedPlace> discover_start(const Environment& environment);

// Whether an MPI library in this process, or in one that it starts, finds the job by PMIx: a server
// of the starter listens. (PMI-1 and PMI-2 hand down an open descriptor instead, which works for
// one process only.)
bool offers_pmix(const Environment& environment);

// "NAME=value" of what the starter said to this process about its place in an MPI job. Whoever has
// them is that process to MPI.
std::vector<std::string> mpi_variables(const Environment& environment);

}  // namespace ds
