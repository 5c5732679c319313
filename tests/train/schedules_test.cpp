// What a schedule says reaches the update: OneCycle's momentum through whole runs, sharded and
// resumed ones.
#include <array>

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;

// Beta1 of each update by DeepSpeed's OneCycle: 4 steps up, 2 down, momentum 0.8 to 0.9, and then
// a decay by a rate of 0.1 every 2 steps.
constexpr std::array kMomenta = {.8, .875, .85, .825, .8, .85, .9, .945, .99};
constexpr auto kUpdates = static_cast<int64_t>(kMomenta.size());

// A rate of 0 keeps the weights as they are, so that gradients do not depend on the momentum.
SchedulerConfig cycle_of(double rate) {
  return {.type = SchedulerType::kOneCycle,
          .one_cycle = {.cycle_min_lr = std::vector{rate},
                        .cycle_max_lr = std::vector{rate},
                        .cycle_first_step_size = 4,
                        .cycle_second_step_size = 2,
                        .decay_step_size = 2,
                        .cycle_min_mom = {.8},
                        .cycle_max_mom = {.9},
                        .decay_mom_rate = .1}};
}

Outcome train_by(const SchedulerConfig& schedule, const Setting& setting, FileSystem& files,
                 int64_t until) {
  EngineOptions options = options_of(setting);
  options.schedule = schedule;
  return train(setting, options, files, until);
}

Outcome train_by(const SchedulerConfig& schedule, const Setting& setting,
                 int64_t until = kUpdates) {
  MemoryFileSystem disk;
  return train_by(schedule, setting, disk, until);
}

// Gradients of an update, by name of the state that they move: without momentum the average is the
// gradient.
std::map<std::string, std::vector<float>> gradients_of(int64_t update) {
  const Setting still{.optimizer = {.adam = {.lr = 0, .betas = {0, kCycledBeta2}}}};
  return train_by({}, still, update).state;
}

std::map<std::string, std::vector<double>> averages_by_hand() {
  std::map<std::string, std::vector<double>> averages;
  for (int64_t update = 1; update <= kUpdates; ++update) {
    const double beta = kMomenta[static_cast<size_t>(update - 1)];
    for (const auto& [name, gradient] : gradients_of(update)) {
      if (!name.ends_with("/exp_avg")) continue;
      std::vector<double>& average = averages[name];
      average.resize(gradient.size());
      for (size_t i = 0; i < gradient.size(); ++i) {
        average[i] = beta * average[i] + (1 - beta) * static_cast<double>(gradient[i]);
      }
    }
  }
  return averages;
}

void check_averages(const Outcome& outcome,
                    const std::map<std::string, std::vector<double>>& averages) {
  REQUIRE(!averages.empty());
  for (const auto& [name, expected] : averages) {
    CAPTURE(name);
    const std::vector<float>& found = outcome.state.at(name);
    REQUIRE(found.size() == expected.size());
    double largest = 0, apart = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      apart = std::max(apart, std::abs(static_cast<double>(found[i]) - expected[i]));
    }
    REQUIRE(largest > 0);
    CHECK(apart < 1e-5 * largest);
  }
}

TEST_CASE("a cycle's momentum is that of each update, on the way down and in its decay",
          "[train]") {
  const auto averages = averages_by_hand();
  for (const Setting& setting :
       {Setting{}, Setting{.ranks = 2, .stage = 1}, Setting{.ranks = 2, .stage = 3}}) {
    CAPTURE(setting.ranks, setting.stage);
    check_averages(train_by(cycle_of(0), setting), averages);
  }
}

TEST_CASE("a cycle goes on where a run was stopped, to the bit", "[train]") {
  for (const int stage : {0, 3}) {
    CAPTURE(stage);
    const Setting setting{.ranks = 2, .stage = stage};
    MemoryFileSystem disk;
    train_by(cycle_of(0.01), setting, disk, 3);
    const Outcome resumed = train_by(cycle_of(0.01), setting, disk, kUpdates);
    CHECK(resumed.state == train_by(cycle_of(0.01), setting).state);
  }
}

TEST_CASE("momentum that is not cycled is the optimizer's own", "[train]") {
  SchedulerConfig rates = cycle_of(0.01);
  rates.one_cycle.cycle_momentum = false;
  const Setting setting{.optimizer = {.adam = {.lr = 0.01}}};
  CHECK(train_by(rates, setting).state == train_by({}, setting).state);
  CHECK(train_by(cycle_of(0.01), setting).state != train_by({}, setting).state);
}

}  // namespace
}  // namespace ds
