// Which rank runs on which cores (pure). Every rank gets as many cores as every other, nobody
// else's, and of one memory (NUMA) node as long as that is possible. Refuses to look at the
// machine.
#pragma once

#include <string>
#include <vector>

namespace ds {

// A core with the hardware threads of it that may be used, as the kernel numbers them.
struct PhysicalCore {
  std::vector<int> cpus;  // ascending
  int numa = 0;
  int package = 0;
  friend bool operator==(const PhysicalCore&, const PhysicalCore&) = default;
};

struct CorePlan {
  std::vector<std::vector<int>> cpus;  // of each rank, ascending
  int cores_each = 0;
};

// Only `allowed` hardware threads are given out; a core none of which is allowed does not count.
// All hardware threads of a core go to one rank. Ranks that fit whole into one node's cores come
// first, node by node; what is left over is shared by those that do not fit, or stays idle. Throws
// UsageError, which begins with `where`, if there are fewer cores than ranks.
CorePlan plan_cores(const std::vector<PhysicalCore>& topology, int ranks,
                    const std::vector<int>& allowed, const std::string& where);

// The same where each slot has a list of its own that it must not leave: slots with equal lists
// share them. Lists that overlap without being equal are taken as they are.
CorePlan plan_slot_cores(const std::vector<PhysicalCore>& topology,
                         const std::vector<std::vector<int>>& slots, const std::string& where);

std::string core_list_text(const std::vector<int>& cores);  // ascending ones, as "0,2-5"

// "0-3 (NUMA node 0)" or "2-3,6-7 (NUMA nodes 0, 1)".
std::string describe_cores(const std::vector<PhysicalCore>& topology, const std::vector<int>& cpus);

}  // namespace ds
