// sim: seeded schedules over the simulated cluster.
//   sim --seed 17 --count 50000         schedules 17 .. 50016, until the first breach, which is
//                                       then told line by line
//   sim --seed 17 --count 1 --trace     one of them, told line by line
//   sim --mutant no_fence --count 5000  must find the bug: exit code 0 if it does
//   sim --mutants --count 5000          every mutant in turn
//   sim --seconds 60                    as many as fit
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "core/status/error.h"
#include "tests/sim/cluster.h"

namespace ds::sim {
namespace {

struct Wanted {
  uint64_t seed = 1;
  int64_t count = 1000;
  double seconds = 0;
  bool trace = false;
  bool all_mutants = false;
  bool quiet = false;
  std::string mutant;
};

struct Tally {
  int64_t schedules = 0, restarts = 0, growths = 0, faults = 0, undone = 0, launches = 0,
          takeovers = 0;
  std::string breach;
  uint64_t seed = 0;  // of the breach
};

Tally run_schedules(const Wanted& wanted, const MutantSet& mutants) {
  const auto start = std::chrono::steady_clock::now();
  Tally tally;
  for (int64_t i = 0; i < wanted.count && tally.breach.empty(); ++i) {
    if (wanted.seconds > 0 && i % 64 == 0 &&
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >
            wanted.seconds) {
      break;
    }
    tally.seed = wanted.seed + static_cast<uint64_t>(i);
    const Result result = Cluster({tally.seed, mutants, wanted.trace}).run();
    ++tally.schedules;
    tally.restarts += result.restarts;
    tally.growths += result.growths;
    tally.faults += result.faults;
    tally.launches += result.launches;
    tally.takeovers += result.takeovers;
    tally.undone += result.exit_code != 0 ? 1 : 0;
    tally.breach = result.breach;
  }
  return tally;
}

// True if the mutant is caught.
bool hunt(const Wanted& wanted, Mutant mutant) {
  MutantSet mutants;
  mutants.add(mutant);
  const Tally tally = run_schedules(wanted, mutants);
  const std::string_view name = kMutantNames[static_cast<size_t>(mutant)];
  if (tally.breach.empty()) {
    fmt::print("{:<20} NOT FOUND in {} schedules\n", name, tally.schedules);
  } else {
    fmt::print("{:<20} found by seed {}: {}\n", name, tally.seed, tally.breach);
  }
  return !tally.breach.empty();
}

int simulate(const Wanted& wanted) {
  bool all_found = true;
  for (size_t i = 0; i < kMutantNames.size(); ++i) {
    if (wanted.all_mutants || kMutantNames[i] == wanted.mutant) {
      all_found = hunt(wanted, static_cast<Mutant>(i)) && all_found;
    }
  }
  if (wanted.all_mutants || !wanted.mutant.empty()) return all_found ? 0 : 1;
  const Tally tally = run_schedules(wanted, {});
  if (!tally.breach.empty()) {
    fmt::print("seed {}: {}\n", tally.seed, tally.breach);
    if (!wanted.trace && !wanted.quiet)
      Cluster({tally.seed, {}, true}).run();  // the same again, told line by line
    return 1;
  }
  fmt::print(
      "{} schedules, {} faults, {} launches, {} takeovers, {} restarts, {} growths, {} not "
      "finished for lack of "
      "hosts; all held\n",
      tally.schedules, tally.faults, tally.launches, tally.takeovers, tally.restarts, tally.growths,
      tally.undone);
  return 0;
}

}  // namespace
}  // namespace ds::sim

int main(int argc, char** argv) {
  CLI::App app("Seeded fault schedules over a simulated cluster", "sim");
  ds::sim::Wanted wanted;
  app.add_option("--seed", wanted.seed);
  app.add_option("--count", wanted.count);
  app.add_option("--seconds", wanted.seconds);
  app.add_flag("--trace", wanted.trace);
  app.add_flag("--quiet", wanted.quiet, "A breach in one line");
  app.add_flag("--mutants", wanted.all_mutants);
  app.add_option("--mutant", wanted.mutant)
      ->check(CLI::IsMember(
          std::vector<std::string>(ds::sim::kMutantNames.begin(), ds::sim::kMutantNames.end())));
  CLI11_PARSE(app, argc, argv);
  // Large buffers are taken and given back all the time: they stay with the process.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  return ds::sim::simulate(wanted);
}
