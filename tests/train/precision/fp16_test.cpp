// Training in fp16: how the loss scale follows overflows, what a skipped step leaves alone, and
// that all of it is the same at every stage, for results that come late, and after a resume.
#include <cmath>

#include "optim/loss_scaler.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;

constexpr int64_t kSteps = 16;

// So large that the first gradients overflow, and so eager to grow that later ones do again.
const Fp16ScaleOptions kRestless{.initial_scale_power = 24, .loss_scale_window = 2};

Setting fp16(Setting setting, const Fp16ScaleOptions& scale = kRestless) {
  setting.dtype = DType::kF16;
  setting.loss_scale = loss_scale_rule(scale);
  return setting;
}

Outcome run_from_nothing(const Setting& setting, int64_t steps = kSteps) {
  MemoryFileSystem disk;
  return train(setting, disk, steps);
}

std::vector<double> scales_by_the_class(const Outcome& outcome, const Fp16ScaleOptions& options) {
  LossScaler scaler = LossScaler::from_fp16(options);
  std::vector<double> scales;
  double before = 0;
  for (const double skipped : outcome.skipped) {
    scales.push_back(scaler.scale());
    scaler.update(skipped > before ? GradientHealth::kOverflowed : GradientHealth::kFinite);
    before = skipped;
  }
  return scales;
}

TEST_CASE("fp16 trains, and its scale follows overflows as the scaler's class says", "[train]") {
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    const Outcome outcome = run_from_nothing(fp16({.ranks = ranks, .stage = 1}));
    CAPTURE(outcome.losses, outcome.scales, outcome.skipped);
    CHECK(outcome.skipped.front() == 1);
    CHECK(outcome.skipped.back() > outcome.skipped[outcome.skipped.size() / 2]);  // again
    CHECK(outcome.skipped.back() < kSteps / 2 + 3);
    CHECK(outcome.scales == scales_by_the_class(outcome, kRestless));
    CHECK(outcome.losses.back() < outcome.losses.front() - 0.05);
  }
}

TEST_CASE("fp16 has the bits of stage 0 at every stage, with accumulation too", "[train]") {
  for (const int micro_steps : {1, 2}) {
    const Setting whole = fp16({.ranks = 2, .micro_steps = micro_steps});
    const Outcome expected = run_from_nothing(whole, 10);
    CHECK(expected.skipped.back() > 0);
    for (int stage = 1; stage <= 3; ++stage) {
      CAPTURE(micro_steps, stage);
      Setting setting = whole;
      setting.stage = stage;
      const Outcome got = run_from_nothing(setting, 10);
      CHECK(got.state == expected.state);
      CHECK(got.losses == expected.losses);
      CHECK(got.scales == expected.scales);
    }
  }
}

TEST_CASE("results that come late change nothing of an fp16 run", "[train]") {
  const Setting at_once = fp16({.ranks = 2, .stage = 2});
  const Outcome expected = run_from_nothing(at_once);
  Setting setting = at_once;
  setting.results_late = 1;
  const Outcome late = run_from_nothing(setting);
  CHECK(late.state == expected.state);
  CHECK(late.scales == expected.scales);
  CHECK(late.skipped == expected.skipped);
}

TEST_CASE("an fp16 run is resumed to the bits, its scale and its rates with it", "[train]") {
  const Setting setting = fp16({.ranks = 2, .stage = 2});
  const Outcome whole = run_from_nothing(setting);
  MemoryFileSystem disk;
  const Outcome first = train(setting, disk, 5);
  CHECK(first.skipped.back() > 0);
  const Outcome rest = train(setting, disk, kSteps);
  CHECK(rest.state == whole.state);
  CHECK(rest.scales == std::vector<double>(whole.scales.begin() + 5, whole.scales.end()));
  CHECK(rest.skipped.back() == whole.skipped.back());
  Setting other = setting;
  other.ranks = 3;
  other.stage = 3;
  MemoryFileSystem other_disk;
  train(setting, other_disk, 5);
  const Outcome moved = train(other, other_disk, 6);
  CHECK(moved.scales == std::vector<double>{whole.scales[5]});
}

TEST_CASE("a tag without a loss scale begins with the configured one", "[train]") {
  MemoryFileSystem disk;
  train({.ranks = 2, .stage = 1}, disk, 2);
  const Outcome outcome = train(fp16({.ranks = 2, .stage = 1}), disk, 4);
  CHECK(outcome.scales.front() == 0x1p24);
  CHECK(outcome.skipped.front() == 1);
}

// The rate of the warm-up says which update a step was.
TEST_CASE("a skipped step leaves weights and state to the bit, and uses up no rate", "[train]") {
  const int late = GENERATE(0, 1);
  const EngineOptions options = options_of(fp16({}));
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    RankResources resources = workspace.resources();
    resources.results_late = late;
    Engine engine(options, resources, std::nullopt);
    engine.initialize();
    CountingSource source(options, 0, 1);
    const StepRules rules({.base_lr = 0.01, .schedule = options.schedule});
    std::mutex mutex;
    int64_t skipped = 0;
    for (int64_t step = 1; step <= kSteps; ++step) {
      CAPTURE(step);
      Outcome before, after;
      collect(engine, before, mutex);
      const StepResult result = train_step(engine, source);
      collect(engine, after, mutex);
      CHECK(result.metrics.at("lr") == rules.settings_at(step - skipped).lr);
      const bool skips = engine.scaling().skipped > skipped;
      skipped = engine.scaling().skipped;
      CHECK(result.metrics.at("skipped_steps") == static_cast<double>(skipped));
      CHECK(std::isfinite(result.metrics.at("grad_norm")) == !skips);
      CHECK((after.state == before.state) == skips);
    }
    CHECK(skipped > 2);
    CHECK(engine.step() == kSteps);
  });
}

TEST_CASE("an overflow at the smallest scale ends the run, on every rank", "[train]") {
  const Setting setting =
      fp16({.ranks = 2, .stage = 2, .results_late = 1},
           {.initial_scale_power = 24, .hysteresis = 1, .min_loss_scale = 0x1p23});
  const EngineOptions options = options_of(setting);
  Outcome before, after;
  std::mutex mutex;
  test::run_ranks(2, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    RankResources resources = workspace.resources();
    resources.results_late = setting.results_late;
    Engine engine(options, resources, std::nullopt);
    engine.initialize();
    CountingSource source(options, comm.rank(), 2);
    collect(engine, before, mutex);
    std::string message;
    try {
      train_until(engine, source, 4);
    } catch (const ValidationError& error) {
      message = error.what();
    }
    collect(engine, after, mutex);
    const std::lock_guard lock(mutex);
    CHECK_THAT(message, Catch::Contains("step 2: loss scale: the gradients overflowed at the "
                                        "minimum scale 8388608") &&
                            Catch::Contains("the weights are those of step 1"));
    CHECK(engine.step() == 1);
    CHECK(engine.scaling().skipped == 1);
  });
  CHECK(after.state == before.state);
}

// What ranks throw when they train for so many steps; they must say the same.
std::string end_of(const Setting& setting, int64_t steps) {
  const EngineOptions options = options_of(setting);
  std::vector<std::string> messages(static_cast<size_t>(setting.ranks));
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    RankResources resources = workspace.resources();
    resources.results_late = setting.results_late;
    Engine engine(options, resources, std::nullopt);
    engine.initialize();
    CountingSource source(options, comm.rank(), comm.size());
    try {
      train_until(engine, source, steps);
    } catch (const NotFinite& error) {
      messages[static_cast<size_t>(comm.rank())] = error.what();
    }
  });
  for (const std::string& message : messages) CHECK(message == messages[0]);
  return messages[0];
}

TEST_CASE("a scale that stays forgives two overflows in a row, and no third", "[train]") {
  for (const int stage : {0, 1, 2, 3}) {
    for (const int late : {0, 1}) {
      CAPTURE(stage, late);
      const Setting bad =
          fp16({.ranks = 2, .stage = stage, .results_late = late}, {.loss_scale = 0x1p26});
      CHECK(end_of(bad, 2).empty());
      CHECK_THAT(end_of(bad, 9),
                 Catch::Contains("step 3: loss scale: the gradients overflowed in 3 "
                                 "steps in a row at the scale 67108864, which is "
                                 "fixed"));
      Setting staying = bad;
      staying.loss_scale = dynamic_scale_rule({.init_scale = 0x1p26,
                                               .min_scale = 0x1p25,
                                               .hysteresis = 1,
                                               .at_minimum = AtMinimumScale::kStay});
      CHECK_THAT(end_of(staying, 9), Catch::Contains("step 4: loss scale: the gradients overflowed "
                                                     "at the minimum scale 33554432"));
    }
  }
  const Outcome good = run_from_nothing(fp16({.ranks = 2, .stage = 1}, {.loss_scale = 1024}));
  CHECK(good.skipped.back() == 0);
  const Outcome fp32 = run_from_nothing({.ranks = 2, .stage = 1});
  for (size_t i = 0; i < good.losses.size(); ++i)
    CHECK(good.losses[i] == Approx(fp32.losses[i]).epsilon(2e-2));
}

TEST_CASE("the peak of an fp16 run is the plan's, to the byte", "[train]") {
  for (const int stage : {0, 3}) {
    const Setting setting = fp16({.ranks = 2, .stage = stage});
    const MemoryUsage planned =
        nth(dry_run(options_of(setting), {.data = 2}, {}).of_rank(0).memory, Tier::kDevice);
    CHECK(run_from_nothing(setting, 2).memory.tag_bytes_at_peak == planned.tag_bytes_at_peak);
  }
}

}  // namespace
}  // namespace ds
