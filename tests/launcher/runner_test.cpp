// Command lines of the runners, and rank discovery.
#include "launcher/runner.h"

#include "core/error.h"
#include "launcher/rank_discovery.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

// Commands: KIND FILTER, over a pool of two hosts with four slots.
std::string answer(std::string command) {
  while (command.ends_with('\n')) command.pop_back();
  const size_t space = std::min(command.find(' '), command.size());
  try {
    const HostPool pool = {{"gpu01", 4}, {"gpu02", 4}};
    const std::string include = space < command.size() ? command.substr(space + 1) : "";
    const SlotMap hosts = select_slots(pool, include, "", HostDialect::kDslaunch);
    std::string out;
    for (const auto& c : runner_commands(runner_named(command.substr(0, space)), hosts, {})) {
      out += fmt::format("{} from {} on '{}': {}\n", c.ranks, c.first_rank, c.host,
                         fmt::join(c.argv, " "));
    }
    return out;
  } catch (const UsageError& error) {
    return std::string("error: ") + error.what();
  }
}

TEST_CASE("command lines of the runners", "[launcher]") {
  testing::run_golden("runner.txt", answer);
}

TEST_CASE("nothing hostile reaches a command line", "[launcher]") {
  for (const char* host :
       {"-oProxyCommand=x", "h;id", "`id`", "$(id)", "a b", "", "h\nslots=1", "user@", "[::1]"}) {
    INFO(host);
    CHECK_THROWS_AS(runner_commands(RunnerKind::kSsh, {{host, {0}}}, {}), UsageError);
  }
  for (const char* path : {"", "-rf", "rankd;id", "a b", "$HOME/rankd"}) {
    INFO(path);
    CHECK_THROWS_AS(runner_commands(RunnerKind::kSsh, {{"h", {0}}}, {.rankd = path}), UsageError);
  }
  CHECK_THROWS_AS(runner_commands(RunnerKind::kSsh, {{"h", {0}}}, {.ssh_port = 0}), UsageError);
  CHECK_THROWS_AS(runner_commands(RunnerKind::kSsh, {{"h", {}}}, {}), UsageError);
  CHECK_THROWS_AS(runner_commands(RunnerKind::kSsh, {}, {}), UsageError);
  CHECK_THROWS_AS(runner_named("pdsh"), UsageError);
}

TEST_CASE("a rank finds itself in its launcher's variables", "[launcher]") {
  CHECK_FALSE(discover_rank({{"RANK", "3"}}).has_value());
  CHECK(discover_rank({{"OMPI_COMM_WORLD_RANK", "5"},
                       {"OMPI_COMM_WORLD_SIZE", "8"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}) == RankPlace{5, 8, 1, "Open MPI"});
  CHECK(discover_rank({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}) ==
        RankPlace{0, 2, 0, "Slurm"});
  CHECK_THROWS_WITH(discover_rank({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}),
                    Catch::Contains("SLURM_LOCALID"));
  CHECK_THROWS_AS(
      discover_rank({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}),
      UsageError);
  CHECK_THROWS_AS(
      discover_rank({{"SLURM_PROCID", "x"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}),
      UsageError);
  CHECK_THROWS_AS(
      discover_rank({{"SLURM_PROCID", "-1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "0"}}),
      UsageError);
}

TEST_CASE("MPICH's variables must agree", "[launcher]") {
  const auto both =
      mpich_rank_variables({{"PMI_RANK", "10"}, {"MPI_LOCALRANKID", "2"}, {"RANK", "99"}});
  CHECK(both.rank == "10");
  CHECK(both.local_rank == "2");
  CHECK_THROWS_AS(
      mpich_rank_variables({{"PMI_RANK", "1"}, {"PMIX_RANK", "2"}, {"MPI_LOCALRANKID", "2"}}),
      UsageError);
  CHECK_THROWS_AS(mpich_rank_variables({{"MPI_LOCALRANKID", "2"}}), UsageError);
  CHECK_THROWS_AS(mpich_rank_variables({{"PMI_RANK", "2"}}), UsageError);
}

}  // namespace
}  // namespace ds
