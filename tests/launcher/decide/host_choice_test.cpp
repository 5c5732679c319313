#include "launcher/decide/hosts/host_choice.h"

#include "core/status/error.h"
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

TEST_CASE("without a hostfile, filters choose among the slots of this machine", "[launcher]") {
  HostRequest in = request("");
  in.local_slots = 4;
  const auto included = [&](const std::string& filter) {
    HostRequest with = in;
    with.include = filter;
    return choose_hosts(with);
  };
  CHECK(included("localhost:0,1").kind == RunnerKind::kLocal);
  CHECK(included("localhost:0,1").hosts == SlotMap{{"localhost", {0, 1}}});
  CHECK(included("localhost:3,1").hosts == SlotMap{{"localhost", {1, 3}}});
  CHECK(included("login1:2").hosts == SlotMap{{"login1", {2}}});
  CHECK(included("localhost:6").hosts == SlotMap{{"localhost", {6}}});  // who places it knows
  CHECK(included("localhost").hosts.empty());                           // as without
  CHECK_THROWS_WITH(included("localhost:0@login1:1"), Catch::Contains("both this machine"));
  CHECK_THROWS_WITH(included("worker-1:0"), Catch::Contains("'worker-1' is not this machine"));
  CHECK_THROWS_AS(included("localhost:-1"), UsageError);
  CHECK_THROWS_AS(included("localhost:9223372036854775807"), UsageError);
  HostRequest without = in;
  without.exclude = "localhost:0,2";
  CHECK(hosts_for(without) == SlotMap{{"localhost", {1, 3}}});
  without.num_gpus = 1;
  CHECK(hosts_for(without) == SlotMap{{"localhost", {1}}});
  without.exclude = "localhost";
  CHECK_THROWS_WITH(choose_hosts(without), Catch::Contains("no slot of this machine is left"));
  without.exclude = "localhost:4";
  CHECK_THROWS_WITH(choose_hosts(without), Catch::Contains("no slot 4"));
  without.include = "localhost";
  CHECK_THROWS_WITH(choose_hosts(without), Catch::Contains("cannot be used together"));
  in.num_nodes = 2;
  CHECK_THROWS_WITH(choose_hosts(in), Catch::Contains("--hostfile"));
  in.num_nodes = 1;
  CHECK(hosts_for(in).empty());
}

TEST_CASE("slots within CUDA_VISIBLE_DEVICES are said to be that", "[launcher]") {
  HostRequest in = request("");
  in.include = "localhost:0";
  in.environment = {{"CUDA_VISIBLE_DEVICES", "4,5"}};
  CHECK(choose_hosts(in).notes.empty());
  in.on_gpus = true;
  REQUIRE(choose_hosts(in).notes.size() == 1);
  CHECK_THAT(choose_hosts(in).notes[0], Catch::Contains("CUDA_VISIBLE_DEVICES=4,5"));
}

TEST_CASE("localhost in a filter means this node of an allocation alone", "[launcher]") {
  HostRequest in = in_slurm("n[1-3]", "2(x3)");
  in.include = "localhost:0,1";
  CHECK(choose_hosts(in).kind == RunnerKind::kLocal);
  CHECK(hosts_for(in) == SlotMap{{"localhost", {0, 1}}});
  in.include = "n2";
  CHECK(hosts_for(in) == SlotMap{{"n2", {0, 1}}});
}

TEST_CASE("lines without a number of slots are counted, and more may be asked for", "[launcher]") {
  HostRequest in = request("a\na\nb\n");
  const HostChoice choice = choose_hosts(in);
  CHECK(choice.hosts == SlotMap{{"a", {0, 1}}, {"b", {0}}});
  REQUIRE(choice.notes.size() == 1);
  CHECK_THAT(choice.notes[0], Catch::Contains("hosts: a line without a number of slots is one") &&
                                  Catch::Contains("3 slots on 2 hosts"));
  in.num_gpus = 4;
  CHECK(hosts_for(in) == SlotMap{{"a", {0, 1, 2, 3}}, {"b", {0, 1, 2, 3}}});
  CHECK(choose_hosts(in).notes.empty());
  in.hostfile_text = "a slots=2\nb\n";
  CHECK_THROWS_WITH(choose_hosts(in), Catch::Contains("host a has 2 slots"));
}

TEST_CASE("slots that a filter names are a limit for --num-gpus", "[launcher]") {
  HostRequest here = request("");
  here.include = "localhost:1";
  here.num_gpus = 1;
  CHECK(hosts_for(here) == SlotMap{{"localhost", {1}}});
  here.num_gpus = 2;
  CHECK_THROWS_WITH(choose_hosts(here),
                    Catch::Contains("host localhost has 1 slot after --include"));
  HostRequest counted = request("a\na\nb\n");
  counted.num_gpus = 2;
  counted.include = "a:1@b";
  CHECK_THROWS_WITH(choose_hosts(counted), Catch::Contains("host a has 1 slot after --include"));
  counted.include = "a@b";
  CHECK(hosts_for(counted) == SlotMap{{"a", {0, 1}}, {"b", {0, 1}}});
  HostRequest tasks = in_slurm("n[1-2]", "2(x2)");
  tasks.num_gpus = 2;
  tasks.exclude = "n1:0";
  CHECK_THROWS_WITH(choose_hosts(tasks), Catch::Contains("host n1 has 1 slot after --include"));
}

TEST_CASE("one task on each node is a rank for each GPU, and it is said", "[launcher]") {
  HostRequest in = in_slurm("gpu[01-02]", "1(x2)");
  in.environment["SLURM_NTASKS_PER_NODE"] = "1";
  in.environment["SLURM_GPUS_ON_NODE"] = "3";
  CHECK(hosts_for(in) == SlotMap{{"gpu01", {0}}, {"gpu02", {0}}});  // on the CPU
  in.on_gpus = true;
  const HostChoice choice = choose_hosts(in);
  CHECK(choice.hosts == SlotMap{{"gpu01", {0, 1, 2}}, {"gpu02", {0, 1, 2}}});
  REQUIRE(choice.notes.size() == 1);
  CHECK_THAT(choice.notes[0], Catch::Contains("3 GPUs: one rank for each"));
  in.include = "gpu02:2";
  CHECK(hosts_for(in) == SlotMap{{"gpu02", {2}}});
  in.include.clear();
  in.num_gpus = 1;
  CHECK(hosts_for(in) == SlotMap{{"gpu01", {0}}, {"gpu02", {0}}});
  CHECK(choose_hosts(in).notes.empty());
}

TEST_CASE("what Slurm says is not read where a hostfile, or local, is asked for", "[launcher]") {
  HostRequest in = in_slurm("n[1-", "x");
  CHECK_THROWS_AS(choose_hosts(in), UsageError);
  in.launcher = "local";
  CHECK(hosts_for(in).empty());
  in.launcher = "auto";
  in.hostfile_text = "a slots=1\n";
  CHECK(hosts_for(in).size() == 1);
}

}  // namespace ds
