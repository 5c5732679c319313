// The communicator suite over MPI: `mpirun -n K mpi_conformance SCENARIO`.
// Every rank exits with 1 and says what is wrong, or the scenario's last line is printed by rank 0.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "comm/mpi/comm.h"
#include "comm/shm/comm.h"
#include "tests/suites/communicator_suite.h"
#include "tests/support/ranks.h"

namespace ds::test {
namespace {

using namespace std::chrono_literals;

void conform(Communicator& world) {
  for (const auto& suite_case : communicator_cases()) {
    suite_case.body(world);
    world.barrier();
  }
}

// The same bits as ranks that are threads of this process.
void same_bits(Communicator& world) {
  const uint64_t by_mpi = result_digest(world, world.memory());
  std::vector<uint64_t> by_threads(static_cast<size_t>(world.size()));
  run_ranks(world.size(), [&](Communicator& comm) {
    by_threads[static_cast<size_t>(comm.rank())] = result_digest(comm, comm.memory());
  });
  require(by_mpi == by_threads[static_cast<size_t>(world.rank())], "MPI and threads differ");
}

void disagree(Communicator& world) {
  for (const auto& disagreement : disagreement_cases()) {
    const auto group = world.split(0, 0);
    check_disagreement(*group, disagreement);
  }
}

void abort_is_told(Communicator& world) {
  const auto group = world.split(0, 0);
  if (world.rank() == 0) group->abort();
  const std::string text = comm_error_of(20s, [&] { group->barrier(); });
  require(text.find("rank 0 called abort()") != std::string::npos, "{}", text);
}

void silence_is_noticed(Communicator& world) {
  if (world.rank() == 0) {
    const std::string text = comm_error_of(20s, [&] { world.barrier(); });
    require(text.find("no answer within 0.2 s from: rank 1") != std::string::npos, "{}", text);
  } else {
    usleep(500'000);
  }
}

// Neighbours of MPI stand where they are told to.
void places_are_kept() {
  int by_mpi = 0;
  {
    const auto world = open_mpi_world();
    by_mpi = world->rank();
    const auto reversed = open_mpi_world({.place = world->size() - by_mpi});
    require(reversed->rank() == world->size() - 1 - by_mpi, "rank {} of MPI became {}", by_mpi,
            reversed->rank());
    reversed->barrier();
  }
  std::printf("rank %d: places done\n", by_mpi);
}

// An error of one rank alone ends its communicators although nobody else ends theirs.
int unwind_one() {
  try {
    const auto world = open_mpi_world();
    const auto group = world->split(0, 0);
    if (world->rank() == 1) throw IoError("of one rank alone");
    sleep(3);
    _exit(1);  // as whoever is told to, by a launcher that has heard of it
  } catch (const IoError&) {
    std::printf("rank 1: unwound done\n");
    std::fflush(stdout);
  }
  return 0;
}

int run(std::string_view scenario) {
  if (scenario == "unwound") return unwind_one();
  if (scenario == "places") {
    places_are_kept();
    return 0;
  }
  MpiOptions options;
  if (scenario == "silence") options.timeout = 200ms;
  const auto world = open_mpi_world(options);
  const int rank = world->rank();
  try {
    if (scenario == "conform") {
      conform(*world);
      same_bits(*world);
    }
    if (scenario == "disagree") disagree(*world);
    if (scenario == "abort") abort_is_told(*world);
    if (scenario == "silence") silence_is_noticed(*world);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    _exit(1);  // without finalising: mpirun ends the others
  }
  std::printf("rank %d: %s done\n", rank, std::string(scenario).c_str());
  std::fflush(stdout);
  // mpirun ends the others with the first that leaves without finalising: they are to say their
  // line before.
  if (scenario == "abort" || scenario == "silence") sleep(3);
  return 0;
}

}  // namespace
}  // namespace ds::test

int main(int argc, char** argv) { return ds::test::run(argc > 1 ? argv[1] : "conform"); }
