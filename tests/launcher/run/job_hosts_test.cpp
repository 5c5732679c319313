#include "launcher/run/job_hosts.h"

#include <algorithm>
#include <fstream>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

const std::string kProgram = "/usr/bin/dslaunch";

// Files that options name, and a home of its own.
struct Files {
  testing::TemporaryDirectory here;
  std::string add(const std::string& name, const std::string& text) const {
    const fs::path path = here.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  std::vector<std::string> environment(std::vector<std::string> more = {}) const {
    more.push_back("HOME=" + here.path().string());
    more.emplace_back("PATH=/usr/bin:/bin");
    return more;
  }
};

bool exports(const JobHosts& hosts, const std::string& entry) {
  return std::ranges::count(hosts.exported.values, entry) +
             std::ranges::count(hosts.exported.shell_values, entry) ==
         1;
}

JobHosts gather(const HostOptions& options, const std::vector<std::string>& environment) {
  return gather_job_hosts(options, environment, kProgram, DeviceWish::kAuto);
}

}  // namespace

TEST_CASE("an environment's entries are split at their first equals sign", "[launcher]") {
  const Environment out = as_environment({"A=1", "B=x=y", "EMPTY=", "ALONE", "A=2"});
  CHECK(out == Environment{{"A", "2"}, {"ALONE", ""}, {"B", "x=y"}, {"EMPTY", ""}});
}

TEST_CASE("a hostfile of other machines is reached over ssh, with what is to be passed on",
          "[launcher]") {
  const Files files;
  HostOptions options;
  options.hostfile = files.add("hosts", "node-1 slots=2\nnode-2 slots=2\n");
  options.ssh_port = 2222;
  options.launcher_args = "-o 'ProxyJump a b'";
  options.environment = {"X=1"};
  const JobHosts hosts = gather(options, files.environment({"NCCL_DEBUG=INFO", "OTHER=2"}));
  CHECK(hosts.choice.kind == RunnerKind::kSsh);
  CHECK(hosts.choice.hosts == SlotMap{{"node-1", {0, 1}}, {"node-2", {0, 1}}});
  CHECK(exports(hosts, "X=1"));
  CHECK(exports(hosts, "NCCL_DEBUG=INFO"));
  CHECK_FALSE(exports(hosts, "OTHER=2"));
  REQUIRE(hosts.agents);
  CHECK(hosts.agents->runner.dslaunch == kProgram);
  CHECK(hosts.agents->runner.ssh_port == 2222);
  CHECK(hosts.agents->runner.extra == std::vector<std::string>{"-o", "ProxyJump a b"});
  CHECK(hosts.agents->path == "/usr/bin:/bin");
  CHECK_FALSE(hosts.agents->coordinator_address);
}

TEST_CASE("a launcher that is local wants no agents and no environment file", "[launcher]") {
  const Files files;
  files.add(".deepspeed_env", "FROM_FILE=1\n");
  HostOptions options;
  options.launcher = "local";
  const JobHosts hosts = gather(options, files.environment());
  CHECK(hosts.choice.kind == RunnerKind::kLocal);
  CHECK_FALSE(hosts.agents);
  CHECK_FALSE(exports(hosts, "FROM_FILE=1"));
}

TEST_CASE("DeepSpeed's environment file is found at home, and a named one wins", "[launcher]") {
  const Files files;
  files.add(".deepspeed_env", "FROM_HOME=1\n");
  HostOptions options;
  options.hostfile = files.add("hosts", "node-1 slots=1\nnode-2 slots=1\n");
  CHECK(exports(gather(options, files.environment()), "FROM_HOME=1"));
  options.environment_file = files.add("named", "FROM_NAMED=1\n");
  const JobHosts named = gather(options, files.environment());
  CHECK(exports(named, "FROM_NAMED=1"));
  CHECK_FALSE(exports(named, "FROM_HOME=1"));
  options.environment_file = files.add("literal", "A=$HOME\n");
  CHECK(gather(options, files.environment()).exported.values ==
        std::vector<std::string>{"A=$HOME"});
  options.environment_file = "/nowhere/env";
  CHECK_THROWS_AS(gather(options, files.environment()), InputMissing);
}

TEST_CASE("DeepSpeed's environment file may have another name", "[launcher]") {
  const Files files;
  const std::string path = files.add("my_env", "FROM_MINE=1\n");
  files.add(".deepspeed_env", "FROM_USUAL=1\n");
  HostOptions options;
  options.hostfile = files.add("hosts", "node-1 slots=1\nnode-2 slots=1\n");
  for (const std::string& name : {std::string("my_env"), path}) {
    const JobHosts hosts = gather(options, files.environment({"DS_ENV_FILE=" + name}));
    CHECK(exports(hosts, "FROM_MINE=1"));
    CHECK_FALSE(exports(hosts, "FROM_USUAL=1"));
    CHECK(hosts.choice.notes.empty());
  }
  const JobHosts missing = gather(options, files.environment({"DS_ENV_FILE=not-there"}));
  REQUIRE(missing.choice.notes.size() == 1);
  CHECK_THAT(missing.choice.notes[0], Catch::StartsWith("DS_ENV_FILE=not-there: there is no such"));
}

TEST_CASE("what a file has for a shell alone is told", "[launcher]") {
  const Files files;
  files.add(".deepspeed_env", "A=$(date)\n");
  HostOptions options;
  options.hostfile = files.add("hosts", "node-1 slots=1\nnode-2 slots=1\n");
  REQUIRE(gather(options, files.environment()).choice.notes.size() == 1);
}

TEST_CASE("a pod that trains by itself is told so, unless somebody wants it", "[launcher]") {
  const Files files;
  HostOptions options;
  const std::vector<std::string> pod = files.environment({"JOB_COMPLETION_INDEX=2"});
  REQUIRE(gather(options, pod).choice.notes.size() == 1);
  CHECK_THAT(gather(options, pod).choice.notes[0], Catch::StartsWith("JOB_COMPLETION_INDEX=2: "));
  options.launcher = "local";
  CHECK(gather(options, pod).choice.notes.empty());
}

TEST_CASE("one of several that does not know which is refused, unless somebody decides",
          "[launcher]") {
  const Files files;
  const std::vector<std::string> pod = files.environment({"RANK=1", "WORLD_SIZE=2"});
  CHECK_THROWS_WITH(gather({}, pod), Catch::StartsWith("RANK=1 and WORLD_SIZE=2 say"));
  HostOptions options;
  options.launcher = "local";
  CHECK(gather(options, pod).choice.hosts.empty());
  options = {};
  options.include = "localhost:0,1";
  CHECK(gather(options, pod).choice.hosts.size() == 1);
  options = {};
  options.hostfile = files.add("hosts", "node-1 slots=1\nnode-2 slots=1\n");
  CHECK(gather(options, pod).choice.hosts.size() == 2);
  // A batch script has what srun and torchrun are going to need, and one dslaunch.
  const std::vector<std::string> script = files.environment(
      {"NODE_RANK=0", "NNODES=2", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=1(x2)"});
  CHECK(gather({}, script).choice.kind == RunnerKind::kSlurm);
}

TEST_CASE("what salloc leaves about GPUs of tasks is not for the steps of agents", "[launcher]") {
  const Files files;
  const auto agents = [&](DeviceWish wish) {
    return *gather_job_hosts({},
                             files.environment({"SLURM_JOB_NODELIST=n[1-2]", "SLURM_GPUS=16",
                                                "SLURM_TASKS_PER_NODE=1(x2)", "SLURM_NTASKS=2"}),
                             kProgram, wish)
                .agents;
  };
  CHECK(agents(DeviceWish::kCuda).runner.step_gpus == 8);
  CHECK(agents(DeviceWish::kCpu).runner.step_gpus == 0);
  const std::vector<std::string> left = agents(DeviceWish::kCpu).environment;
  CHECK(std::ranges::count(left, "SLURM_GPUS=16") == 0);
  CHECK(std::ranges::count(left, "SLURM_NTASKS=2") == 1);
}

TEST_CASE("a local rank that launchers append is passed over with a note", "[launcher]") {
  const Files files;
  HostOptions options;
  options.local_rank = 0;
  REQUIRE(gather(options, files.environment()).choice.notes.size() == 1);
  CHECK_THAT(gather(options, files.environment()).choice.notes[0],
             Catch::StartsWith("--local-rank: passed over"));
  options.local_rank = 1;  // of several, which is all that is known
  CHECK_THROWS_WITH(gather(options, files.environment()), Catch::StartsWith("--local-rank 1: "));
  const JobHosts started =
      gather_started_hosts(options, files.environment(), kProgram, "deepspeed", {});
  CHECK(started.choice.notes.size() == 1);
}

TEST_CASE("CUDA_VISIBLE_DEVICES of this machine is no word about others", "[launcher]") {
  const Files files;
  HostOptions options;
  options.hostfile = files.add("hosts", "node-1 slots=1\nnode-2 slots=1\n");
  const auto notes = [&](const std::string& value) {
    return gather(options, files.environment({"CUDA_VISIBLE_DEVICES=" + value})).choice.notes;
  };
  CHECK(notes("").empty());
  REQUIRE(notes("0,1").size() == 1);
  CHECK_THAT(notes("0,1")[0], Catch::StartsWith("CUDA_VISIBLE_DEVICES is ignored"));
}

TEST_CASE("what is wrong about hosts is one clear error", "[launcher]") {
  const Files files;
  const std::string hostfile = files.add("hosts", "node-1 slots=1\nnode-2 slots=1\n");
  struct Case {
    std::function<void(HostOptions&)> change;
    std::string words;
  };
  const std::vector<Case> cases{
      {[](HostOptions& o) { o.hostfile = "/nowhere/hosts"; }, "open /nowhere/hosts"},
      {[](HostOptions& o) { o.hostfile = "/tmp"; }, "/tmp: it is a directory"},
      {[](HostOptions& o) { o.master_addr = "no such name"; },
       "--master-addr no such name: its name "},
      {[](HostOptions& o) { o.include = "node-3"; }, "node-3"},
      {[](HostOptions& o) { o.num_nodes = 3; }, "3"},
      {[](HostOptions& o) { o.launcher = "teleport"; }, "teleport"},
  };
  for (const Case& bad : cases) {
    INFO(bad.words);
    HostOptions options;
    options.hostfile = hostfile;
    bad.change(options);
    CHECK_THROWS_WITH(gather(options, files.environment()), Catch::Contains(bad.words));
  }
}

TEST_CASE("a job that mpirun or srun has started chooses no hosts again", "[launcher]") {
  struct Case {
    std::function<void(HostOptions&)> change;
    std::string name;
  };
  const std::vector<Case> cases{
      {[](HostOptions& o) { o.hostfile = "hosts"; }, "--hostfile"},
      {[](HostOptions& o) { o.launcher = "ssh"; }, "--launcher"},
      {[](HostOptions& o) { o.launcher_args = "-v"; }, "--launcher-args"},
      {[](HostOptions& o) { o.include = "a"; }, "--include"},
      {[](HostOptions& o) { o.exclude = "a"; }, "--exclude"},
      {[](HostOptions& o) { o.num_nodes = 1; }, "--num-nodes"},
      {[](HostOptions& o) { o.num_gpus = 1; }, "--num-gpus"},
  };
  for (const Case& bad : cases) {
    HostOptions options;
    bad.change(options);
    CHECK_THROWS_AS(gather_started_hosts(options, {}, kProgram, "mpirun", {}), UsageError);
    CHECK_THROWS_WITH(gather_started_hosts(options, {}, kProgram, "mpirun", {}),
                      Catch::StartsWith(bad.name + ": mpirun has chosen the hosts"));
  }
}

TEST_CASE("the hosts of a started job are those of its starter", "[launcher]") {
  const Files files;
  const SlotMap slots{{"node-1", {0}}, {"node-2", {0, 1}}};
  const JobHosts alone = gather_started_hosts({}, files.environment(), kProgram, "mpirun", {});
  CHECK(alone.choice.kind == RunnerKind::kLocal);
  CHECK_FALSE(alone.agents);
  HostOptions options;
  options.master_addr = "127.0.0.1";
  const JobHosts mpi =
      gather_started_hosts(options, files.environment(), kProgram, "mpirun", slots);
  CHECK(mpi.choice.kind == RunnerKind::kMpi);
  CHECK(mpi.choice.hosts == slots);
  REQUIRE(mpi.agents);
  CHECK(mpi.agents->kind == RunnerKind::kLocal);  // the other hosts' agents came by themselves
  CHECK(mpi.agents->coordinator_address == "127.0.0.1");
  CHECK(gather_started_hosts({}, files.environment(), kProgram, "srun", slots).choice.kind ==
        RunnerKind::kSlurm);
}

TEST_CASE("hosts meet where --master-addr says, else at every address", "[launcher]") {
  HostOptions options;
  CHECK_FALSE(rendezvous_addresses(options).empty());
  options.master_addr = "127.0.0.1";
  CHECK(rendezvous_addresses(options) == std::vector<std::string>{"127.0.0.1"});
  options.master_addr = "no such name";
  CHECK_THROWS_AS(rendezvous_addresses(options), UsageError);
}

}  // namespace ds
