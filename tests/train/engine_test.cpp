#include "train/engine.h"

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "comm/traced_comm.h"
#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"
#include "tests/support/ranks.h"
#include "tests/train/small_engine.h"
#include "train/checkpointing.h"
#include "train/dry_run.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;

// Loads what there is, trains up to `until`, saves.
Outcome train(const Setting& setting, FileSystem& files, int64_t until) {
  const EngineOptions options = options_of(setting);
  const RunPlan plan = dry_run(options, setting.ranks, {});
  Outcome outcome;
  std::mutex outcome_mutex;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), plan.step);
    JobPlan job;
    job.rank = comm.rank();
    job.world_size = comm.size();
    job.run_dir = "/run";
    Checkpointing checkpoints(engine, files, job, {});
    engine.restore_step(checkpoints.load(std::nullopt));
    CountingSource source(options, comm.rank(), comm.size());
    while (engine.step() < until) {
      const StepResult result = engine.train_batch(source, 0);
      if (comm.rank() == 0) outcome.losses.push_back(result.metrics.at("loss"));
    }
    engine.evaluate(source, 1);
    checkpoints.save();
    collect(engine, outcome, outcome_mutex);
    if (comm.rank() == 0) outcome.memory = workspace.usage();
  });
  return outcome;
}

TEST_CASE("a run stopped at any step and resumed has the bits of one that was not", "[rankd]") {
  for (const Setting& setting :
       {Setting{.ranks = 2, .stage = 3}, Setting{.ranks = 2, .stage = 2, .dtype = DType::kBF16},
        Setting{.ranks = 3, .stage = 1, .micro_steps = 2}}) {
    MemoryFileSystem whole_disk;
    const Outcome whole = train(setting, whole_disk, 5);
    for (int64_t stop = 1; stop < 5; ++stop) {
      CAPTURE(setting.ranks, setting.stage, stop);
      MemoryFileSystem disk;
      train(setting, disk, stop);
      const Outcome resumed = train(setting, disk, 5);
      CHECK(resumed.state == whole.state);
      CHECK(resumed.losses.back() == whole.losses.back());
    }
  }
}

TEST_CASE("a checkpoint of any ranks and stage loads at any other with the same state", "[rankd]") {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int stage = 0; stage <= 3; ++stage) {
      MemoryFileSystem disk;
      const Outcome saved = train({.ranks = ranks, .stage = stage}, disk, 2);
      for (int other_ranks = 1; other_ranks <= 4; ++other_ranks) {
        for (int other_stage = 0; other_stage <= 3; ++other_stage) {
          CAPTURE(ranks, stage, other_ranks, other_stage);
          CHECK(train({.ranks = other_ranks, .stage = other_stage}, disk, 2).state == saved.state);
        }
      }
    }
  }
}

TEST_CASE("stages agree to the bit through the whole engine", "[rankd]") {
  for (const int micro_steps : {1, 2}) {
    MemoryFileSystem first_disk;
    const Outcome expected =
        train({.ranks = 2, .stage = 0, .micro_steps = micro_steps}, first_disk, 3);
    for (int stage = 1; stage <= 3; ++stage) {
      CAPTURE(micro_steps, stage);
      MemoryFileSystem disk;
      const Outcome got = train({.ranks = 2, .stage = stage, .micro_steps = micro_steps}, disk, 3);
      CHECK(got.state == expected.state);
      CHECK(got.losses == expected.losses);
    }
  }
}

struct NamedOptimizer {
  const char* name;
  OptimizerConfig optimizer;
};

std::vector<NamedOptimizer> other_optimizers() {
  return {{"lion", {.type = OptimizerType::kLion, .lion = {.lr = 0.003, .weight_decay = 0.1}}},
          {"adagrad", {.type = OptimizerType::kAdagrad, .adagrad = {.lr = 0.01}}},
          {"sgd", {.type = OptimizerType::kSgd, .sgd = {.lr = 0.3, .momentum = 0.9}}},
          {"plain sgd", {.type = OptimizerType::kSgd, .sgd = {.lr = 0.2}}}};
}

TEST_CASE("every optimizer trains, to the same bits at all stages", "[rankd]") {
  for (const auto& [name, optimizer] : other_optimizers()) {
    MemoryFileSystem first_disk;
    const Setting whole{.ranks = 2, .optimizer = optimizer};
    const Outcome expected = train(whole, first_disk, 24);
    CAPTURE(name, expected.losses);
    CHECK(*std::min_element(expected.losses.end() - 6, expected.losses.end()) <
          expected.losses.front() - 0.05);
    for (int stage = 1; stage <= 3; ++stage) {
      CAPTURE(stage);
      Setting setting = whole;
      setting.stage = stage;
      MemoryFileSystem disk;
      const Outcome got = train(setting, disk, 24);
      CHECK(got.state == expected.state);
      CHECK(got.losses == expected.losses);
      const MemoryUsage planned = dry_run(options_of(setting), setting.ranks, {}).memory;
      CHECK(got.memory.tag_bytes_at_peak == planned.tag_bytes_at_peak);
    }
  }
}

TEST_CASE("every optimizer resumes to the bits, on other ranks and stages too", "[rankd]") {
  for (const auto& [name, optimizer] : other_optimizers()) {
    CAPTURE(name);
    const Setting setting{.ranks = 2, .stage = 2, .dtype = DType::kBF16, .optimizer = optimizer};
    MemoryFileSystem whole_disk;
    const Outcome whole = train(setting, whole_disk, 4);
    MemoryFileSystem disk;
    const Outcome saved = train(setting, disk, 2);
    const Outcome resumed = train(setting, disk, 4);
    CHECK(resumed.state == whole.state);
    CHECK(resumed.losses.back() == whole.losses.back());

    MemoryFileSystem other_disk;
    train(setting, other_disk, 2);
    const Setting other{.ranks = 3, .stage = 3, .dtype = DType::kBF16, .optimizer = optimizer};
    CHECK(train(other, other_disk, 2).state == saved.state);
  }
}

TEST_CASE("a checkpoint of another optimizer is refused by name", "[rankd]") {
  MemoryFileSystem disk;
  train({}, disk, 1);
  CHECK_THROWS_WITH(
      train({.optimizer = {.type = OptimizerType::kLion}}, disk, 2),
      Catch::Contains("saved with the optimizer \"adam\"") && Catch::Contains("has \"lion\""));
}

// b bytes of state per parameter, 2 slots for Adam, 1 for the others, none for plain SGD.
TEST_CASE("the plan counts the state that the optimizer has", "[rankd]") {
  const auto state_bytes = [](const OptimizerConfig& optimizer) {
    const auto usage =
        dry_run(options_of({.ranks = 2, .stage = 1, .optimizer = optimizer}), 2, {}).memory;
    return usage.tag_bytes_at_peak.at(static_cast<size_t>(MemoryTag::kOptimizer));
  };
  const auto adam = state_bytes({});
  const auto lion = state_bytes({.type = OptimizerType::kLion});
  const auto plain = state_bytes({.type = OptimizerType::kSgd});
  CHECK(state_bytes({.type = OptimizerType::kAdagrad}) == lion);
  CHECK(state_bytes({.type = OptimizerType::kSgd, .sgd = {.momentum = 0.5}}) == lion);
  CHECK(adam - lion == lion - plain);
  CHECK(lion > plain);
}

TEST_CASE("the measured peak is the plan's, to the byte", "[rankd]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const int ranks : {1, 2}) {
        CAPTURE(stage, ranks, name_of(dtype));
        const Setting setting{.ranks = ranks, .stage = stage, .dtype = dtype};
        MemoryFileSystem disk;
        const MemoryUsage planned = dry_run(options_of(setting), ranks, {}).memory;
        const MemoryUsage measured = train(setting, disk, 2).memory;
        CHECK(measured.bytes_peak == planned.bytes_peak);
        CHECK(measured.tag_bytes_at_peak == planned.tag_bytes_at_peak);
      }
    }
  }
}

// Psi parameters of b bytes over n ranks: gradients are reduce-scattered and weights gathered once
// at stages 0 to 2; stage 3 gathers weights before use instead, at most twice (arXiv 1910.02054,
// section 7).
TEST_CASE("bytes on the wire follow the ZeRO paper", "[rankd]") {
  for (int stage = 0; stage <= 3; ++stage) {
    CAPTURE(stage);
    EngineOptions options = options_of({.ranks = 4, .stage = stage});
    options.zero.persistence_numel = 0;
    options.zero.gather = {.prefetch_numel = 0, .live_numel = 1 << 30, .reuse_numel = 0};
    const RunPlan plan = dry_run(options, 4, {});
    const double whole = static_cast<double>(plan.parameters) * 4 * 3 / 4;
    double sent = 0;
    for (const auto& [op, bytes] : plan.wire_bytes) sent += bytes;
    const double expected = stage < 3 ? 2 * whole : 3 * whole;
    // Stage 3 keeps the bucket that backward needs first, and meets the tied embedding again.
    CHECK(sent / expected == Approx(1.0).margin(stage < 3 ? 0.02 : 0.15));
  }
}

TEST_CASE("a loss that is not finite stops the run before the update", "[rankd]") {
  EngineOptions options = options_of({});
  options.optimizer.adam.lr = 1e30;
  options.schedule = {};
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    engine.initialize();
    CountingSource source(options, 0, 1);
    engine.train_batch(source, 0);
    CHECK_THROWS_WITH(engine.train_batch(source, 0), Catch::Contains("not both finite"));
  });
}

TEST_CASE("an evaluation that is not finite skips no update", "[rankd]") {
  const EngineOptions options = options_of({});
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    engine.initialize();
    CountingSource source(options, 0, 1);
    Outcome before, after;
    std::mutex mutex;
    set_first_weight(engine, std::nanf(""));
    engine.store().restore_from_owned();
    CHECK(std::isnan(engine.evaluate(source, 1)));
    set_first_weight(engine, 0);
    engine.store().restore_from_owned();
    collect(engine, before, mutex);
    engine.train_batch(source, 0);
    collect(engine, after, mutex);
    CHECK(after.state != before.state);
  });
}

// One weight becomes NaN after two steps, and with it the loss on every rank.
TEST_CASE("a loss that is not finite leaves weights, slots and step as they were", "[rankd]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const EngineOptions options = options_of({.ranks = 2, .stage = stage, .dtype = dtype});
      INFO("stage " << stage << ", " << name_of(dtype));
      Outcome before, after;
      std::mutex mutex;
      test::run_ranks(2, [&](Communicator& comm) {
        Connections connections = Connections::over(comm, {.data = comm.size()});
        Workspace workspace(Device::cpu(), 1, connections.peers());
        Engine engine(options, workspace.resources(), std::nullopt);
        engine.initialize();
        CountingSource source(options, comm.rank(), 2);
        for (int step = 0; step < 2; ++step) engine.train_batch(source, 0);
        if (comm.rank() == 0) set_first_weight(engine, std::nanf(""));
        engine.store().restore_from_owned();
        collect(engine, before, mutex);
        std::string message;
        try {
          engine.train_batch(source, 0);
        } catch (const ValidationError& error) {
          message = error.what();
        }
        collect(engine, after, mutex);
        const std::lock_guard lock(mutex);
        CHECK_THAT(message, Catch::Contains("step 3: loss nan") &&
                                Catch::Contains("the weights are those of step 2"));
        CHECK(engine.step() == 2);
      });
      REQUIRE(before.state.size() == after.state.size());
      for (const auto& [name, values] : before.state) {
        const std::vector<float>& left = after.state.at(name);
        INFO(name);
        REQUIRE(std::memcmp(values.data(), left.data(), values.size() * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace ds
