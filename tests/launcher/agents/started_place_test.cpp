#include "launcher/agents/started_place.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

Environment open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "2"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_NAMESPACE", "77"},
          {"PMIX_RANK", "2"}};
}

Environment slurm_step() {
  return {{"SLURM_JOB_ID", "12"},        {"SLURM_STEP_ID", "3"},
          {"SLURM_PROCID", "3"},         {"SLURM_NTASKS", "4"},
          {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "0"},
          {"SLURM_NODEID", "1"},         {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
          {"SLURMD_NODENAME", "vn2"}};
}

Environment torchrun() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"GROUP_RANK", "1"},
          {"MASTER_ADDR", "node-1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_RESTART_COUNT", "0"}};
}

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("one of many knows which: mpirun, srun, Hydra", "[launcher]") {
  CHECK(discover_start(open_mpi()) == StartedPlace{"mpirun", 2, 4, 0, 2, "", "PMIX_NAMESPACE 77"});
  CHECK(discover_start(slurm_step()) == StartedPlace{"srun", 3, 4, 0, 1, "vn2", "slurm 12 3"});
  const Environment hydra{
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  CHECK(discover_start(hydra) == StartedPlace{"mpirun", 1, 2, 1, 2, "", ""});
}

TEST_CASE("a start of one is like one by hand", "[launcher]") {
  CHECK_FALSE(discover_start({}));
  CHECK_FALSE(discover_start({{"RANK", "3"}, {"WORLD_SIZE", "4"}}));
  CHECK_FALSE(discover_start(with(torchrun(), "WORLD_SIZE", "1")));
  // A job script of eight tasks, the shell of `srun --pty`, and mpirun -n 1.
  CHECK_FALSE(
      discover_start({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}}));
  CHECK_FALSE(discover_start({{"SLURM_PROCID", "0"},
                              {"SLURM_NTASKS", "1"},
                              {"SLURM_STEP_NUM_TASKS", "1"},
                              {"SLURM_LOCALID", "0"}}));
  CHECK_FALSE(discover_start({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
}

TEST_CASE("mpirun inside a Slurm job is mpirun's, whose daemons were srun's", "[launcher]") {
  Environment environment = open_mpi();
  environment.insert({{"SLURM_PROCID", "0"},
                      {"SLURM_STEP_NUM_TASKS", "3"},
                      {"SLURM_NTASKS", "3"},
                      {"SLURM_LOCALID", "0"}});
  CHECK(discover_start(environment)->starter == "mpirun");
  CHECK(discover_start(environment)->rank == 2);
}

TEST_CASE("a pod that does not say where it is among others is refused", "[launcher]") {
  const auto refused = [](const Environment& environment, const char* name) {
    INFO(name);
    CHECK_FALSE(discover_start(environment));
    CHECK_THROWS_WITH(require_start_alone(environment), Catch::StartsWith(name) &&
                                                            Catch::Contains("--launcher local") &&
                                                            Catch::Contains("LOCAL_WORLD_SIZE=1"));
    CHECK_THROWS_AS(require_start_alone(environment), UsageError);
  };
  refused({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "job-master-0"}},
          "RANK=1 and WORLD_SIZE=4 say");
  refused({{"PET_NODE_RANK", "0"}, {"PET_NNODES", "2"}}, "PET_NODE_RANK=0 and PET_NNODES=2 say");
  refused({{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1:4"}}, "PET_NODE_RANK=0 and PET_NNODES=1:4");
  refused({{"NODE_RANK", "1"}, {"NNODES", "2"}}, "NODE_RANK=1 and NNODES=2 say");
  refused({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "PMI_RANK=1 and PMI_SIZE=2 say");
}

TEST_CASE("torchrun, accelerate and DeepSpeed's launcher start one for each rank", "[launcher]") {
  CHECK(discover_start(torchrun()) ==
        StartedPlace{"torchrun", 5, 8, 1, 4, "", "torchrun none node-1:29500 0", "1"});
  CHECK(discover_start(with(torchrun(), "TORCHELASTIC_RESTART_COUNT", "1"))->job !=
        discover_start(torchrun())->job);
  const Environment deepspeed{{"RANK", "1"},
                              {"WORLD_SIZE", "2"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_SIZE", "2"},
                              {"CROSS_SIZE", "1"},
                              {"CROSS_RANK", "0"},
                              {"MASTER_ADDR", "127.0.0.1"},
                              {"MASTER_PORT", "29500"}};
  CHECK(discover_start(deepspeed) ==
        StartedPlace{"deepspeed", 1, 2, 1, 2, "", "torchrun  127.0.0.1:29500 ", "0"});
  const Environment by_hand{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}};
  CHECK(discover_start(by_hand) == StartedPlace{"torchrun", 0, 2, 0, 2, "", ""});
  Environment pod = with(with(by_hand, "LOCAL_WORLD_SIZE", "1"), "RANK", "1");
  pod["MASTER_ADDR"] = "job-master-0";
  CHECK(discover_start(pod) ==
        StartedPlace{"torchrun", 1, 2, 0, 1, "", "torchrun  job-master-0: ", "1"});
  CHECK_THROWS_WITH(discover_start(with(torchrun(), "LOCAL_RANK", "4")),
                    Catch::Contains("LOCAL_RANK=4") && Catch::Contains("RANK=5"));
}

TEST_CASE("a local rank that is an option has to be that of the variables", "[launcher]") {
  const StartedPlace place = *discover_start(torchrun());
  CHECK_NOTHROW(require_same_local_rank(place, std::nullopt));
  CHECK_NOTHROW(require_same_local_rank(place, 1));
  CHECK_THROWS_WITH(
      require_same_local_rank(place, 0),
      Catch::Contains("--local-rank 0: torchrun has set the variables of local rank 1"));
}

TEST_CASE("torchrun under srun or mpirun is torchrun's, by the mark that it leaves", "[launcher]") {
  Environment by_srun = torchrun();  // one task on each node, each of them a torchrun
  by_srun.insert({{"SLURM_PROCID", "1"},
                  {"SLURM_STEP_NUM_TASKS", "2"},
                  {"SLURM_NTASKS", "2"},
                  {"SLURM_LOCALID", "0"},
                  {"PMI_RANK", "1"}});
  CHECK(discover_start(by_srun)->starter == "torchrun");
  CHECK(discover_start(by_srun)->rank == 5);
  Environment mapped = slurm_step();  // what people export in front of a script of PyTorch
  mapped.insert(
      {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}});
  CHECK(discover_start(mapped)->starter == "srun");
}

TEST_CASE("leftovers of a shell are no others", "[launcher]") {
  for (const Environment& environment : std::initializer_list<Environment>{
           {},
           {{"MASTER_ADDR", "node-1"}, {"MASTER_PORT", "29500"}},
           {{"WORLD_SIZE", "8"}},
           {{"RANK", "0"}},
           {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}},
           {{"RANK", "0"}, {"WORLD_SIZE", "x"}},
           {{"RANK", "0"}, {"WORLD_SIZE", ""}},
           {{"PET_NODE_RANK", "0"}, {"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "8"}},
           slurm_step(),
           torchrun()}) {
    CHECK_NOTHROW(require_start_alone(environment));
    CHECK(note_of_start_alone(environment).empty());
  }
}

TEST_CASE("pods that may be runs of their own are told that they are", "[launcher]") {
  CHECK_THAT(note_of_start_alone({{"JOB_COMPLETION_INDEX", "3"}}),
             Catch::StartsWith("JOB_COMPLETION_INDEX=3: this pod trains by itself"));
  CHECK_THAT(note_of_start_alone({{"VC_WORKER_HOSTS", "w-0.job,w-1.job"}}),
             Catch::Contains("--hostfile /etc/volcano/worker.host"));
  CHECK(note_of_start_alone({{"VC_WORKER_HOSTS", "w-0.job"}}).empty());
}

TEST_CASE("variables that contradict each other are both named", "[launcher]") {
  const auto refused = [](const Environment& environment, const char* one, const char* other) {
    CHECK_THROWS_WITH(discover_start(environment), Catch::Contains(one) && Catch::Contains(other));
    CHECK_THROWS_AS(discover_start(environment), UsageError);
  };
  refused(with(open_mpi(), "RANK", "1"), "OMPI_COMM_WORLD_RANK=2", "RANK=1");
  refused(with(open_mpi(), "PMIX_RANK", "3"), "OMPI_COMM_WORLD_RANK=2", "PMIX_RANK=3");
  refused(with(open_mpi(), "WORLD_SIZE", "8"), "OMPI_COMM_WORLD_SIZE=4", "WORLD_SIZE=8");
  refused(with(open_mpi(), "LOCAL_RANK", "1"), "OMPI_COMM_WORLD_LOCAL_RANK=0", "LOCAL_RANK=1");
  refused(with(slurm_step(), "PMI_RANK", "0"), "SLURM_PROCID=3", "PMI_RANK=0");
  refused(with(slurm_step(), "SLURM_NTASKS", "2"), "SLURM_STEP_NUM_TASKS=4", "SLURM_NTASKS=2");
  refused(with(slurm_step(), "SLURM_NODEID", "2"), "SLURM_NODEID=2",
          "SLURM_STEP_TASKS_PER_NODE=3,1");
  refused(with(slurm_step(), "SLURM_PROCID", "4"), "SLURM_PROCID=4", "SLURM_STEP_NUM_TASKS=4");
  CHECK_NOTHROW(discover_start(with(open_mpi(), "RANK", "2")));
}

TEST_CASE("variables that are missing or no numbers are named", "[launcher]") {
  Environment without = open_mpi();
  without.erase("OMPI_COMM_WORLD_LOCAL_SIZE");
  CHECK_THROWS_WITH(discover_start(without), Catch::Contains("OMPI_COMM_WORLD_LOCAL_SIZE"));
  CHECK_THROWS_WITH(discover_start(with(slurm_step(), "SLURM_PROCID", "x")),
                    Catch::Contains("SLURM_PROCID='x'"));
  CHECK_THROWS_WITH(discover_start(with(slurm_step(), "SLURM_LOCALID", "-1")),
                    Catch::Contains("SLURM_LOCALID='-1'"));
  CHECK_THROWS_AS(discover_start(with(slurm_step(), "SLURM_STEP_TASKS_PER_NODE", "")), UsageError);
}

TEST_CASE("whoever is told of a PMIx server can be a process of an MPI job", "[launcher]") {
  CHECK_FALSE(offers_pmix(open_mpi()));
  CHECK(offers_pmix(with(open_mpi(), "PMIX_SERVER_URI41", "1.0;tcp4://127.0.0.1:4")));
  CHECK_FALSE(offers_pmix(with(open_mpi(), "PMIX_SERVER_TMPDIR", "/tmp")));
  Environment without_rank = with(open_mpi(), "PMIX_SERVER_URI4", "x");
  without_rank.erase("PMIX_RANK");
  CHECK_FALSE(offers_pmix(without_rank));
  CHECK_FALSE(offers_pmix(with(slurm_step(), "PMI_FD", "7")));
}

TEST_CASE("what a starter says of a process is told on, and nothing else", "[launcher]") {
  Environment environment = with(open_mpi(), "OMPI_ARGV", "train.json");
  environment["PATH"] = "/bin";
  CHECK(mpi_variables(environment) ==
        std::vector<std::string>{"OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                                 "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4",
                                 "PMIX_NAMESPACE=77", "PMIX_RANK=2"});
  CHECK(mpi_variables(slurm_step()) ==
        std::vector<std::string>{"SLURM_LOCALID=0", "SLURM_PROCID=3"});
}

}  // namespace ds
