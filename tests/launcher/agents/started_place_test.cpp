#include "launcher/agents/started_place.h"

#include "core/error.h"
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
