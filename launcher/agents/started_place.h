// How this process was started (pure): by hand, or by mpirun, srun or one of PyTorch's launchers as
// one of many, and then which of them. The environment is a map; nothing is read from the process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/decide/text/environment.h"

namespace ds {

// One of several dslaunch that were started for one job, one for each rank.
struct StartedPlace {
  std::string_view starter;  // "mpirun", "srun", "torchrun" or "deepspeed"
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string host;  // as the starter calls it, empty where it does not say
  std::string job;   // the same for all of them and no other job; empty where nothing says so
  // Tells those apart that count their local ranks by themselves, although they may share a
  // machine: pods, and several torchrun. Empty: a host counts once.
  std::string group{};
  bool leads_host() const { return local_rank == 0; }
  bool is_launcher() const { return rank == 0; }
  friend bool operator==(const StartedPlace&, const StartedPlace&) = default;
};

// Nothing where this is the only one: started by hand, by a job script (which has the variables of
// its tasks, and is one process), in an interactive step of one task, or as the only process of
// mpirun. torchrun, accelerate and DeepSpeed's launcher are asked first, because the others start
// them, too; Open MPI, MVAPICH, PALS and Hydra (MPICH, Intel MPI) before Slurm, in whose steps they
// may themselves have been started; last come RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE of
// whomever. Throws UsageError, naming the variables, where they are incomplete or contradict each
// other, RANK, WORLD_SIZE, LOCAL_RANK, PMIX_RANK, PMI_RANK and PMI_SIZE included.
std::optional<StartedPlace> discover_start(const Environment& environment);

// For what DeepSpeed's launcher and the first of PyTorch's append to the words of each process
// (--local_rank=N). Throws UsageError where it is another one.
void require_same_local_rank(const StartedPlace& place, std::optional<int> said);

// For a dslaunch that discover_start() takes for the only one, and that nobody told its hosts.
// Throws UsageError where the variables tell of others after all, but not of which host they are:
// RANK and WORLD_SIZE of a pod (PyTorchJob), PET_NNODES, PMI_SIZE. A single one of them, and a
// world of one, are leftovers of a shell.
void require_start_alone(const Environment& environment);

// The same for what tells of others that may well be runs of their own; empty: there are none.
std::string note_of_start_alone(const Environment& environment);

// Whether an MPI library in this process, or in one that it starts, finds the job by PMIx: a server
// of the starter listens. (PMI-1 and PMI-2 hand down an open descriptor instead, which works for
// one process only.)
bool offers_pmix(const Environment& environment);

// "NAME=value" of what the starter said to this process about its place in an MPI job. Whoever has
// them is that process to MPI.
std::vector<std::string> mpi_variables(const Environment& environment);

}  // namespace ds
