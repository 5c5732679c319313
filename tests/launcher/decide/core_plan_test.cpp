#include "launcher/decide/core_plan.h"

#include <numeric>
#include <set>

#include "core/status/error.h"
#include "launcher/process/machine.h"
#include "launcher/process/machine_cores.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using CpuLists = std::vector<std::vector<int>>;

// Cores numbered through the nodes; the second hardware thread of core c is c + all cores, as on
// x86.
std::vector<PhysicalCore> machine_of(const std::vector<int>& cores_of_nodes, int threads = 1) {
  const int all = std::accumulate(cores_of_nodes.begin(), cores_of_nodes.end(), 0);
  std::vector<PhysicalCore> out;
  for (size_t node = 0; node < cores_of_nodes.size(); ++node) {
    for (int i = 0; i < cores_of_nodes[node]; ++i) {
      PhysicalCore core{{}, static_cast<int>(node), static_cast<int>(node)};
      for (int thread = 0; thread < threads; ++thread) {
        core.cpus.push_back(static_cast<int>(out.size()) + thread * all);
      }
      out.push_back(core);
    }
  }
  return out;
}

std::vector<int> up_to(int count) {
  std::vector<int> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

TEST_CASE("every rank gets its share of the cores, and both threads of each", "[launcher]") {
  const CorePlan plan = plan_cores(machine_of({4}, 2), 2, up_to(8), "here");
  CHECK(plan.cpus == CpuLists{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(plan.cores_each == 2);
}

TEST_CASE("ranks stay on one memory node as long as they fit", "[launcher]") {
  CHECK(plan_cores(machine_of({4, 4}), 2, up_to(8), "").cpus ==
        CpuLists{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(plan_cores(machine_of({4, 4}), 4, up_to(8), "").cpus ==
        CpuLists{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  // Three ranks of two cores: one core of each node is left, and stays idle.
  CHECK(plan_cores(machine_of({5, 3}), 3, up_to(8), "").cpus == CpuLists{{0, 1}, {2, 3}, {5, 6}});
  // The third does not fit into either node, and takes what they leave.
  CHECK(plan_cores(machine_of({8, 8}), 3, up_to(16), "").cpus ==
        CpuLists{{0, 1, 2, 3, 4}, {8, 9, 10, 11, 12}, {5, 6, 7, 13, 14}});
  CHECK(plan_cores(machine_of({3, 3}), 1, up_to(6), "").cpus == CpuLists{{0, 1, 2, 3, 4, 5}});
}

TEST_CASE("only allowed hardware threads are given out", "[launcher]") {
  // An affinity mask in the middle, one thread of core 1 only.
  const CorePlan plan = plan_cores(machine_of({4}, 2), 2, {1, 2, 6}, "here");
  CHECK(plan.cpus == CpuLists{{1}, {2, 6}});
  CHECK(plan.cores_each == 1);
  CHECK(plan_cores(machine_of({2, 2}), 2, {2, 3}, "").cpus == CpuLists{{2}, {3}});
}

TEST_CASE("fewer cores than ranks is an error that says what to do", "[launcher]") {
  CHECK_THROWS_WITH(plan_cores(machine_of({2}), 3, up_to(2), "host node-1"),
                    Catch::StartsWith("host node-1: 2 cores may be used and 3 ranks") &&
                        Catch::Contains("--bind-cores-to-rank"));
  CHECK_THROWS_AS(plan_cores(machine_of({2}), 1, {}, ""), UsageError);
  CHECK_THROWS_AS(plan_cores({}, 1, up_to(4), ""), UsageError);
  CHECK_THROWS_AS(plan_cores(machine_of({2}), 0, up_to(2), ""), UsageError);
}

TEST_CASE("any machine: no core twice, all ranks alike", "[launcher]") {
  for (int first = 1; first <= 7; ++first) {
    for (int second = 0; second <= 5; ++second) {
      for (int ranks = 1; ranks <= first + second; ++ranks) {
        const CorePlan plan = plan_cores(machine_of({first, second}, 2), ranks, up_to(24), "");
        std::set<int> seen;
        bool alike = plan.cpus.size() == static_cast<size_t>(ranks);
        for (const std::vector<int>& cpus : plan.cpus) {
          alike = alike && cpus.size() == static_cast<size_t>(2 * plan.cores_each);
          for (const int cpu : cpus) alike = alike && seen.insert(cpu).second;
        }
        INFO(first << " " << second << " " << ranks);
        CHECK(alike);
      }
    }
  }
}

TEST_CASE("slots keep to the cores that they were given", "[launcher]") {
  const CorePlan plan =
      plan_slot_cores(machine_of({4, 4}), {{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}}, "here");
  CHECK(plan.cpus == CpuLists{{0, 1}, {4, 5, 6, 7}, {2, 3}});
  CHECK(plan.cores_each == 2);
  CHECK_THROWS_WITH(plan_slot_cores(machine_of({2}), {{0}, {0}}, "here"),
                    Catch::Contains("1 cores"));
}

TEST_CASE("lists of cores as text", "[launcher]") {
  CHECK(core_list_text({0, 2, 3, 4, 5, 9}) == "0,2-5,9");
  CHECK(core_list_text({}).empty());
  CHECK(describe_cores(machine_of({2, 2}), {0, 1}) == "0-1 (NUMA node 0)");
  CHECK(describe_cores(machine_of({2, 2}), {1, 2}) == "1-2 (NUMA nodes 0, 1)");
}

TEST_CASE("this machine has the cores that this process may use", "[launcher]") {
  std::set<int> found;
  for (const PhysicalCore& core : machine_cores()) found.insert(core.cpus.begin(), core.cpus.end());
  for (const int cpu : own_cores()) CHECK(found.contains(cpu));
}

}  // namespace ds
