#include "launcher/decide/hosts/slurm_allocation.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

SlurmAllocation two_nodes(Environment more) {
  more.insert({{"SLURM_JOB_NODELIST", "gpu[01-02]"}, {"SLURM_TASKS_PER_NODE", "1(x2)"}});
  return slurm_allocation(more);
}

std::vector<int64_t> ranks_of(const SlurmAllocation& allocation) {
  std::vector<int64_t> out;
  for (const Host& host : slurm_ranks(allocation, true).hosts) out.push_back(host.slots);
  return out;
}

using Counts = std::vector<int64_t>;

}  // namespace

TEST_CASE("outside of an allocation there are no nodes", "[launcher]") {
  CHECK(slurm_allocation({}).nodes.empty());
  CHECK(slurm_allocation({{"SLURM_JOB_NODELIST", ""}, {"SLURM_NTASKS", "x"}}).nodes.empty());
}

TEST_CASE("nodes and tasks have older names, too", "[launcher]") {
  const SlurmAllocation old = slurm_allocation({{"SLURM_NODELIST", "n[1,3]"}});
  CHECK(old.nodes == std::vector<std::string>{"n1", "n3"});
  CHECK(old.tasks == Counts{1, 1});
  CHECK_FALSE(old.tasks_said);
  CHECK(two_nodes({{"SLURM_NPROCS", "2"}}).tasks_said);
}

TEST_CASE("Slurm says GPUs in many ways", "[launcher]") {
  const auto gpus = [](Environment more) { return two_nodes(std::move(more)).gpus_per_node; };
  CHECK_FALSE(gpus({}));
  CHECK(gpus({{"SLURM_GPUS_ON_NODE", "8"}}) == 8);
  CHECK(gpus({{"SLURM_GPUS_PER_NODE", "h100:8"}}) == 8);
  CHECK(gpus({{"SLURM_GPUS_PER_NODE", "h100:4,a100:2"}}) == 6);
  CHECK(gpus({{"SLURM_GPUS_PER_NODE", "4"}, {"SLURM_GPUS_ON_NODE", "8"}}) == 4);
  CHECK(gpus({{"SLURM_JOB_GPUS", "0,1,2,5"}}) == 4);
  CHECK(gpus({{"SLURM_JOB_GPUS", "0-3"}}) == 4);
  CHECK(gpus({{"SLURM_JOB_GPUS", "2"}}) == 1);  // its number
  CHECK(gpus({{"SLURM_STEP_GPUS", "0,1"}, {"SLURM_JOB_GPUS", "0,1,2,3"}}) == 2);
  CHECK_FALSE(gpus({{"SLURM_GPUS_ON_NODE", "many"}}));
  CHECK_FALSE(gpus({{"SLURM_GPUS_ON_NODE", "0"}}));
  CHECK_FALSE(gpus({{"SLURM_GPUS_ON_NODE", "99999"}}));
}

TEST_CASE("GPUs of this node are those of others only if the sum allows it", "[launcher]") {
  CHECK(two_nodes({{"SLURM_GPUS_ON_NODE", "8"}, {"SLURM_GPUS", "16"}}).gpus_per_node == 8);
  const SlurmAllocation unequal = two_nodes({{"SLURM_GPUS_ON_NODE", "8"}, {"SLURM_GPUS", "12"}});
  CHECK_FALSE(unequal.gpus_per_node);
  CHECK(ranks_of(unequal) == Counts{1, 1});
  CHECK_THAT(slurm_ranks(unequal, true).note, Catch::StartsWith("10 of 12 GPUs"));
  CHECK(slurm_allocation({{"SLURM_JOB_NODELIST", "n1"}, {"SLURM_GPUS", "a100:4"}}).gpus_per_node ==
        4);
  CHECK(two_nodes({{"SLURM_GPUS", "16"}}).gpus_per_node == 8);
  CHECK_FALSE(two_nodes({{"SLURM_GPUS", "15"}}).gpus_per_node);
}

TEST_CASE("GPUs that were counted by job or by task are asked for by each step", "[launcher]") {
  const auto asked = [](const SlurmAllocation& allocation) {
    return gpus_of_steps(allocation, true);
  };
  CHECK_FALSE(asked(two_nodes({{"SLURM_GPUS_ON_NODE", "8"}})));
  CHECK_FALSE(asked(two_nodes({{"SLURM_GPUS_PER_NODE", "8"}})));
  CHECK(asked(two_nodes({{"SLURM_GPUS", "16"}})) == 8);
  CHECK_FALSE(asked(two_nodes({{"SLURM_GPUS", "15"}})));
  CHECK(gpus_of_steps(two_nodes({{"SLURM_GPUS", "15"}}), false) == 0);
  CHECK_FALSE(gpus_of_steps(two_nodes({{"SLURM_GPUS_ON_NODE", "8"}}), false));
  const auto by_task = [](const std::string& tasks) {
    return slurm_allocation({{"SLURM_JOB_NODELIST", "n[1-2]"},
                             {"SLURM_TASKS_PER_NODE", tasks},
                             {"SLURM_NTASKS", "x"},
                             {"SLURM_GPUS_PER_TASK", "h100:2"}});
  };
  CHECK(asked(by_task("4(x2)")) == 8);
  CHECK(ranks_of(by_task("4(x2)")) == Counts{4, 4});
  CHECK(ranks_of(by_task("1(x2)")) == Counts{2, 2});
  CHECK_FALSE(asked(by_task("4,3")));
  for (const char* name : {"SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU"}) {
    CHECK(is_gpu_request_of_tasks(name));
  }
  CHECK_FALSE(is_gpu_request_of_tasks("SLURM_GPUS_ON_NODE"));
}

TEST_CASE("where Slurm says nothing of GPUs, one rank for each node is told", "[launcher]") {
  const auto note = [](const std::string& tasks, bool on_gpus) {
    return slurm_ranks(slurm_allocation(
                           {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_TASKS_PER_NODE", tasks}}),
                       on_gpus)
        .note;
  };
  CHECK_THAT(note("1(x2)", true), Catch::StartsWith("Slurm does not say here how many GPUs"));
  CHECK(note("1(x2)", false).empty());
  CHECK(note("8(x2)", true).empty());
}

TEST_CASE("ranks are tasks, but for one task on each node", "[launcher]") {
  const auto with = [](const std::string& tasks, bool said) {
    Environment out{{"SLURM_JOB_NODELIST", "n[1-2]"},
                    {"SLURM_TASKS_PER_NODE", tasks},
                    {"SLURM_GPUS_ON_NODE", "4"}};
    if (said) out["SLURM_NTASKS"] = "2";
    return slurm_allocation(out);
  };
  CHECK(ranks_of(with("1(x2)", true)) == Counts{4, 4});
  CHECK(ranks_of(with("64(x2)", false)) == Counts{4, 4});  // its cores: nobody asked for tasks
  CHECK(ranks_of(with("4(x2)", true)) == Counts{4, 4});
  CHECK(ranks_of(with("8(x2)", true)) == Counts{8, 8});  // which placing them refuses
  CHECK(slurm_ranks(with("4(x2)", true), true).note.empty());
  CHECK(ranks_of(with("2,1", true)) == Counts{2, 1});
  CHECK_THAT(slurm_ranks(with("2,1", true), true).note,
             Catch::StartsWith("5 of 8 GPUs of this Slurm job stay idle: it has 3 tasks"));
  const SlurmRanks on_cpu = slurm_ranks(with("2,1", true), false);
  CHECK(on_cpu.note.empty());
  CHECK(on_cpu.hosts == HostPool{{"n1", 2, false}, {"n2", 1, false}});
}

TEST_CASE("Slurm's task counts", "[launcher]") {
  CHECK(expand_task_counts("2(x3),1") == Counts{2, 2, 2, 1});
  CHECK(expand_task_counts("4") == Counts{4});
  for (const char* text : {"", "x", "2(x)", "2(x0)", "0", "2(x99999999)", "-1", "9999999"}) {
    INFO(text);
    CHECK_THROWS_AS(expand_task_counts(text), UsageError);
  }
}

}  // namespace ds
