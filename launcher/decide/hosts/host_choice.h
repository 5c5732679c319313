// Which hosts a job runs on and what starts its agents there (pure): hostfile or batch system,
// filters, counts. Reads no files and no environment; both are handed in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/decide/hosts/host_filter.h"
#include "launcher/decide/hosts/runner.h"
#include "launcher/decide/text/environment.h"

namespace ds {

struct HostRequest {
  std::string launcher = "auto";             // or a name that runner_named knows
  std::optional<std::string> hostfile_text;  // none: there is no hostfile
  std::string hostfile_name;                 // for messages
  std::string include;
  std::string exclude;
  std::optional<int> num_nodes;  // the first so many hosts
  std::optional<int> num_gpus;   // the first so many slots of each host
  Environment environment;       // for what Slurm says
  std::string this_host;         // as this machine calls itself
  int local_slots = 1;           // how many ranks this machine takes by default
  bool on_gpus = false;          // whether ranks are to compute on GPUs where there are some
};

struct HostChoice {
  RunnerKind kind = RunnerKind::kLocal;
  SlotMap hosts;                   // empty: this machine, and nothing was said about its slots
  std::vector<std::string> notes;  // for the user
};

// `auto` is ssh where the hostfile names other machines, slurm in an allocation of several nodes,
// and else local. Without a hostfile, slurm and mpi take the hosts of the allocation, and filters
// may name slots of this machine ("localhost:0,1"). Throws UsageError for what contradicts itself,
// for more nodes or slots than there are, and for a launcher that needs hosts and has none.
HostChoice choose_hosts(const HostRequest& request);

}  // namespace ds
