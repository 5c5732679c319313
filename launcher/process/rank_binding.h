// The cores of every rank of a job, on all of its hosts (pure): planned where --bind-cores-to-rank
// asks for it, else as mpirun or srun bound the slots, else none.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/decide/core_plan.h"

namespace ds {

struct BindingOptions {
  bool bind = false;
  std::optional<std::vector<int>> cores;  // --bind-core-list: no others; asks for binding, too
  bool report = false;
  bool wants_topology() const { return bind || cores || report; }
};

// One host of the job, "" for this machine alone.
struct HostCpus {
  std::string host;
  std::vector<PhysicalCore> topology;   // empty where it is not wanted
  std::vector<std::vector<int>> slots;  // the hardware threads that each slot may use
};

struct RankBinding {
  // Host -> of each slot; hosts without: free.
  std::map<std::string, std::vector<std::vector<int>>> cores;
  // Each rank gets so many threads, none more than its cores; nothing if no rank is bound.
  std::optional<int> threads;
  std::vector<std::string> report;  // a line for each slot
};

// Throws UsageError naming the host whose cores are too few.
RankBinding bind_ranks(const BindingOptions& options, const std::vector<HostCpus>& hosts);

// Cores of each slot of a host, where its slots were given different ones; else empty.
std::vector<std::vector<int>> slot_bindings(const std::vector<std::vector<int>>& slot_cores);

// Threads that each of these bound slots has room for: slots that were given the same cores share
// them, and every rank gets as many as the poorest slot allows.
int threads_of_bindings(const std::vector<std::vector<int>>& bindings);

}  // namespace ds
