#include "launcher/decide/host_choice.h"

#include "core/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

HostRequest request(const std::string& hostfile) {
  HostRequest out;
  if (!hostfile.empty()) out.hostfile_text = hostfile;
  out.hostfile_name = "hosts";
  out.this_host = "login1.cluster";
  return out;
}

HostRequest in_slurm(const std::string& nodes, const std::string& tasks) {
  HostRequest out = request("");
  out.environment = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", nodes}, {"SLURM_TASKS_PER_NODE", tasks}};
  return out;
}

SlotMap hosts_for(HostRequest in) { return choose_hosts(in).hosts; }

}  // namespace

TEST_CASE("without a hostfile and outside Slurm the run is local", "[launcher]") {
  const HostChoice choice = choose_hosts(request(""));
  CHECK(choice.kind == RunnerKind::kLocal);
  CHECK(choice.hosts.empty());
}

TEST_CASE("a hostfile with other machines means ssh, with this one alone local", "[launcher]") {
  CHECK(choose_hosts(request("a slots=2\nb slots=4\n")).kind == RunnerKind::kSsh);
  CHECK(choose_hosts(request("a slots=2\n")).kind == RunnerKind::kSsh);
  for (const char* name : {"localhost", "127.0.0.1", "login1", "login1.cluster"}) {
    INFO(name);
    const HostChoice choice = choose_hosts(request(fmt::format("{} slots=3\n", name)));
    CHECK(choice.kind == RunnerKind::kLocal);
    CHECK(choice.hosts.front().slots.size() == 3);
  }
  CHECK(choose_hosts(request("login1.elsewhere slots=3\n")).kind == RunnerKind::kSsh);
}

TEST_CASE("filters and counts choose among the hosts, whatever starts the agents", "[launcher]") {
  for (const char* launcher : {"ssh", "mpi", "slurm", "auto"}) {
    HostRequest in = request("a slots=2\nb slots=4\nc slots=4\n");
    in.launcher = launcher;
    in.exclude = "b:1";
    in.num_nodes = 2;
    CHECK(hosts_for(in) == SlotMap{{"a", {0, 1}}, {"b", {0, 2, 3}}});
    in.num_gpus = 2;
    CHECK(hosts_for(in) == SlotMap{{"a", {0, 1}}, {"b", {0, 2}}});
  }
}

TEST_CASE("--num-gpus is checked against the slots of every host", "[launcher]") {
  HostRequest in = request("a slots=8\nb slots=4\n");
  in.num_gpus = 8;
  CHECK_THROWS_WITH(choose_hosts(in), Catch::Contains("host b has 4 slots"));
  in.num_gpus.reset();
  in.num_nodes = 3;
  CHECK_THROWS_WITH(choose_hosts(in), Catch::Contains("there are 2"));
}

TEST_CASE("an allocation of Slurm names the hosts", "[launcher]") {
  const HostChoice choice = choose_hosts(in_slurm("n[1-3]", "2(x2),1"));
  CHECK(choice.kind == RunnerKind::kSlurm);
  CHECK(choice.hosts == SlotMap{{"n1", {0, 1}}, {"n2", {0, 1}}, {"n3", {0}}});
  HostRequest one_task = in_slurm("n[1-2]", "1(x2)");
  one_task.num_gpus = 4;  // one task per node, and as many ranks as were asked for
  CHECK(hosts_for(one_task).front().slots.size() == 4);
  HostRequest by_mpi = in_slurm("n[1-2]", "1(x2)");
  by_mpi.launcher = "mpi";
  CHECK(hosts_for(by_mpi).size() == 2);
  CHECK(choose_hosts(in_slurm("login1", "2")).kind == RunnerKind::kLocal);
}

TEST_CASE("a hostfile wins over the allocation, and local over both", "[launcher]") {
  HostRequest in = in_slurm("n[1-2]", "1(x2)");
  in.hostfile_text = "a slots=1\nb slots=1\n";
  CHECK(choose_hosts(in).kind == RunnerKind::kSsh);
  in.hostfile_text.reset();
  in.launcher = "local";
  CHECK(choose_hosts(in).hosts.empty());
}

TEST_CASE("launchers that have no hosts, or the wrong ones, are refused", "[launcher]") {
  for (const char* launcher : {"ssh", "mpi", "slurm"}) {
    HostRequest in = request("");
    in.launcher = launcher;
    CHECK_THROWS_WITH(choose_hosts(in), Catch::Contains("--hostfile"));
  }
  HostRequest local = request("a slots=1\nb slots=1\n");
  local.launcher = "local";
  CHECK_THROWS_AS(choose_hosts(local), UsageError);
  local.include = "a";
  CHECK_THROWS_WITH(choose_hosts(local), Catch::Contains("not this machine"));
  HostRequest filter = request("");
  filter.include = "a";
  CHECK_THROWS_WITH(choose_hosts(filter), Catch::Contains("--hostfile"));
  HostRequest nobody = request("a slots=1\n");
  nobody.exclude = "a";
  CHECK_THROWS_AS(choose_hosts(nobody), UsageError);
}

TEST_CASE("DeepSpeed's launchers are known by their names", "[launcher]") {
  HostRequest in = request("a slots=1\nb slots=1\n");
  in.launcher = "pdsh";
  const HostChoice choice = choose_hosts(in);
  CHECK(choice.kind == RunnerKind::kSsh);
  CHECK(choice.notes.size() == 1);
  in.launcher = "mvapich";
  CHECK_THROWS_AS(choose_hosts(in), Unsupported);
  in.launcher = "teleport";
  CHECK_THROWS_AS(choose_hosts(in), UsageError);
}

TEST_CASE("Slurm's task counts", "[launcher]") {
  CHECK(expand_task_counts("2(x3),1") == std::vector<int64_t>{2, 2, 2, 1});
  CHECK(expand_task_counts("4") == std::vector<int64_t>{4});
  for (const char* text : {"", "x", "2(x)", "2(x0)", "0", "2(x99999999)", "-1", "9999999"}) {
    INFO(text);
    CHECK_THROWS_AS(expand_task_counts(text), UsageError);
  }
}

}  // namespace ds
