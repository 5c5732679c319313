#include "train/engine.h"

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>

#include "comm/traced_comm.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;

MemoryUsage device_memory_of(const RunPlan& plan) {
  return nth(plan.of_rank(0).memory, Tier::kDevice);
}

TEST_CASE("a run stopped at any step and resumed has the bits of one that was not", "[rankd]") {
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  for (Setting setting :
       {Setting{.ranks = 2, .stage = 3}, Setting{.ranks = 2, .stage = 2, .dtype = DType::kBF16},
        Setting{.ranks = 3, .stage = 1, .micro_steps = 2},
        Setting{.ranks = 2, .stage = 3, .results_late = 1}}) {
    setting.host_access = access;
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
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int stage = 0; stage <= 3; ++stage) {
      MemoryFileSystem disk;
      const Outcome saved = train({.ranks = ranks, .stage = stage, .host_access = access}, disk, 2);
      for (int other_ranks = 1; other_ranks <= 4; ++other_ranks) {
        for (int other_stage = 0; other_stage <= 3; ++other_stage) {
          CAPTURE(ranks, stage, other_ranks, other_stage);
          const Setting other{.ranks = other_ranks, .stage = other_stage, .host_access = access};
          CHECK(train(other, disk, 2).state == saved.state);
        }
      }
    }
  }
}

TEST_CASE("stages agree to the bit through the whole engine", "[rankd]") {
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  for (const int micro_steps : {1, 2}) {
    MemoryFileSystem first_disk;
    const Outcome expected =
        train({.ranks = 2, .stage = 0, .micro_steps = micro_steps}, first_disk, 3);
    for (int stage = 0; stage <= 3; ++stage) {
      CAPTURE(micro_steps, stage);
      MemoryFileSystem disk;
      const Outcome got = train(
          {.ranks = 2, .stage = stage, .micro_steps = micro_steps, .host_access = access}, disk, 3);
      CHECK(got.state == expected.state);
      CHECK(got.losses == expected.losses);
    }
  }
}

TEST_CASE("results that come late change no bit of weights, losses and checkpoints", "[rankd]") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const int micro_steps : {1, 2}) {
        CAPTURE(stage, name_of(dtype), micro_steps);
        Setting setting{.ranks = 2, .stage = stage, .dtype = dtype, .micro_steps = micro_steps};
        MemoryFileSystem disk;
        const Outcome at_once = train(setting, disk, 5);
        setting.results_late = 1;
        MemoryFileSystem late_disk;
        const Outcome late = train(setting, late_disk, 5);
        CHECK(late.state == at_once.state);
        CHECK(late.losses == at_once.losses);
        CHECK(late.memory.bytes_peak == at_once.memory.bytes_peak);
        setting.results_late = 0;
        CHECK(train(setting, late_disk, 7).state == train(setting, disk, 7).state);
      }
    }
  }
}

// One rank, and an engine whose results are late by that many steps.
void with_engine(int results_late, const std::function<void(Engine&, BatchSource&)>& body) {
  const EngineOptions options = options_of({});
  test::run_ranks(1, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, {.data = comm.size()});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    RankResources resources = workspace.resources();
    resources.results_late = results_late;
    Engine engine(options, resources, std::nullopt);
    engine.initialize();
    CountingSource source(engine.options(), 0, 1);
    body(engine, source);
  });
}

Outcome collected(Engine& engine) {
  Outcome outcome;
  std::mutex mutex;
  collect(engine, outcome, mutex);
  return outcome;
}

TEST_CASE("results come in the order of their steps, with what each was begun with", "[rankd]") {
  with_engine(1, [](Engine& engine, BatchSource& source) {
    engine.restore_step(2);  // the rate of the first two is 0
    CHECK_FALSE(engine.next_result(Wait::kNo));
    CHECK_FALSE(engine.next_result(Wait::kYes));  // there is nothing to wait for
    CHECK(engine.begin_step(source, 7) == 3);
    CHECK(engine.begun() == 3);
    CHECK(engine.step() == 2);
    CHECK_FALSE(engine.next_result(Wait::kNo));
    CHECK(engine.begin_step(source, 9) == 4);
    const std::optional<StepResult> first = engine.next_result(Wait::kNo);
    REQUIRE(first);
    CHECK(first->step == 3);
    CHECK(first->flags == 7);
    CHECK(engine.step() == 3);
    CHECK(engine.begun() == 4);
    CHECK_FALSE(engine.next_result(Wait::kNo));
    const std::optional<StepResult> second = engine.next_result(Wait::kYes);
    REQUIRE(second);
    CHECK(second->step == 4);
    CHECK(second->flags == 9);
    CHECK(second->metrics.at("lr") > first->metrics.at("lr"));  // it warms up
    CHECK(second->metrics.at("loss") != first->metrics.at("loss"));
  });
  with_engine(0, [](Engine& engine, BatchSource& source) {
    engine.begin_step(source, 0);
    CHECK(engine.next_result(Wait::kNo)->step == 1);
  });
}

TEST_CASE("what needs the weights of a step is refused while steps are under way", "[rankd]") {
  with_engine(1, [](Engine& engine, BatchSource& source) {
    engine.begin_step(source, 0);
    CHECK_THROWS_WITH(engine.evaluate(source, 1), Catch::Contains("evaluate: 1 steps are under"));
    CHECK_THROWS_WITH(engine.restore_step(5), Catch::Contains("restore the step: 1 steps"));
    MemoryFileSystem disk;
    disk.make_directories("/run");
    JobPlan job;
    job.run_dir = "/run";
    Checkpointing checkpoints(engine, disk, job, {});
    CHECK_THROWS_WITH(checkpoints.save(), Catch::Contains("save: 1 steps are under way"));
    engine.begin_step(source, 0);
    CHECK_THROWS_AS(engine.begin_step(source, 0), InternalError);
    CHECK(engine.begun() == 2);  // and the two are as they were
    CHECK(engine.next_result(Wait::kYes)->step == 1);
    CHECK(engine.next_result(Wait::kYes)->step == 2);
    CHECK_NOTHROW(engine.evaluate(source, 1));
  });
}

TEST_CASE("an engine refuses results later than it can keep", "[rankd]") {
  CHECK_THROWS_WITH(with_engine(2, [](Engine&, BatchSource&) {}),
                    Catch::Contains("2 steps late, expected 0 to 1"));
}

// The weight that makes step 3 bad is whole again when step 4 begins, so that step 4 alone would
// have an update.
TEST_CASE("a step begun after a bad one updates nothing, and can be made again", "[rankd]") {
  Outcome undisturbed;
  with_engine(0, [&](Engine& engine, BatchSource& source) {
    train_until(engine, source, 2);
    set_first_weight(engine, 0.25F);
    engine.store().state().restore_from_owned();
    train_until(engine, source, 4);
    undisturbed = collected(engine);
  });
  with_engine(1, [&](Engine& engine, BatchSource& source) {
    train_until(engine, source, 2);
    set_first_weight(engine, std::nanf(""));
    engine.store().state().restore_from_owned();
    engine.begin_step(source, 0);
    set_first_weight(engine, 0.25F);
    engine.store().state().restore_from_owned();
    const Outcome before = collected(engine);
    CHECK(before.state != undisturbed.state);
    engine.begin_step(source, 0);
    CHECK(collected(engine).state == before.state);
    CHECK_THROWS_WITH(
        engine.next_result(Wait::kYes),
        Catch::Contains("step 3: loss nan") && Catch::Contains("the weights are those of step 2"));
    CHECK(engine.step() == 2);
    CHECK(engine.begun() == 2);
    CHECK_FALSE(engine.next_result(Wait::kYes));
    CHECK(collected(engine).state == before.state);
    train_until(engine, source, 4);
    CHECK(collected(engine).state == undisturbed.state);
  });
}

struct NamedOptimizer {
  const char* name;
  OptimizerConfig optimizer;
};

std::vector<NamedOptimizer> other_optimizers() {
  return {
      {"lion", {.type = OptimizerType::kLion, .lion = {.lr = 0.003, .weight_decay = 0.1}}},
      {"adagrad", {.type = OptimizerType::kAdagrad, .adagrad = {.lr = 0.01}}},
      {"sgd", {.type = OptimizerType::kSgd, .sgd = {.lr = 0.3, .momentum = 0.9}}},
      {"plain sgd", {.type = OptimizerType::kSgd, .sgd = {.lr = 0.2}}},
      {"adamw in 8 bits, with groups",
       {.adam = {.lr = 0.003, .weight_decay = 0.1},
        .moment_dtype = MomentType::kMxFp8,
        .param_groups = {{.max_dims = 1, .weight_decay = 0.0}, {.match = {"*mlp*"}, .lr = 0.005}}}},
      {"lamb", {.type = OptimizerType::kLamb, .lamb = {.lr = 0.05, .weight_decay = 0.1}}},
      {"muon", {.type = OptimizerType::kMuon, .muon = {.lr = 0.01, .adam_lr = 0.003}}}};
}

TEST_CASE("every optimizer trains, to the same bits at all stages", "[rankd]") {
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  for (const auto& [name, optimizer] : other_optimizers()) {
    MemoryFileSystem first_disk;
    const Setting whole{.ranks = 2, .optimizer = optimizer, .host_access = access};
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
      const MemoryUsage planned =
          device_memory_of(dry_run(options_of(setting), {.data = setting.ranks}, {}));
      CHECK(got.memory.tag_bytes_at_peak == planned.tag_bytes_at_peak);
    }
  }
}

TEST_CASE("every optimizer resumes to the bits, on other ranks and stages too", "[rankd]") {
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  for (const auto& [name, optimizer] : other_optimizers()) {
    CAPTURE(name);
    const Setting setting{.ranks = 2,
                          .stage = 2,
                          .dtype = DType::kBF16,
                          .optimizer = optimizer,
                          .host_access = access};
    MemoryFileSystem whole_disk;
    const Outcome whole = train(setting, whole_disk, 4);
    MemoryFileSystem disk;
    const Outcome saved = train(setting, disk, 2);
    const Outcome resumed = train(setting, disk, 4);
    CHECK(resumed.state == whole.state);
    CHECK(resumed.losses.back() == whole.losses.back());

    MemoryFileSystem other_disk;
    train(setting, other_disk, 2);
    const Setting other{.ranks = 3,
                        .stage = 3,
                        .dtype = DType::kBF16,
                        .optimizer = optimizer,
                        .host_access = access};
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
    const EngineOptions options = options_of({.ranks = 2, .stage = 1, .optimizer = optimizer});
    const MemoryUsage usage = device_memory_of(dry_run(options, {.data = 2}, {}));
    return usage.tag_bytes_at_peak.at(static_cast<size_t>(MemoryTag::kOptimizer));
  };
  const auto adam = state_bytes({});
  const auto lion = state_bytes({.type = OptimizerType::kLion});
  const auto plain = state_bytes({.type = OptimizerType::kSgd});
  CHECK(state_bytes({.type = OptimizerType::kAdagrad}) == lion);
  CHECK(state_bytes({.type = OptimizerType::kSgd, .sgd = {.momentum = 0.5}}) == lion);
  CHECK(adam - lion == lion - plain);
  CHECK(lion > plain);
  // Two of a quarter and an exponent for 32 weights.
  CHECK(32 * (state_bytes({.moment_dtype = MomentType::kMxFp8}) - plain) == 33 * (adam - lion) / 2);
  const auto muon = state_bytes({.type = OptimizerType::kMuon});
  CHECK(muon < adam);
  CHECK(muon > lion);
}

TEST_CASE("the measured peak is the plan's, to the byte", "[rankd]") {
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const int ranks : {1, 2}) {
        CAPTURE(stage, ranks, name_of(dtype));
        const Setting setting{
            .ranks = ranks, .stage = stage, .dtype = dtype, .host_access = access};
        MemoryFileSystem disk;
        const MemoryUsage planned =
            device_memory_of(dry_run(options_of(setting), {.data = ranks}, {}));
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
    options.zero.layout.persistence_numel = 0;
    options.zero.layout.gather = {.prefetch_numel = 0, .live_numel = 1 << 30, .reuse_numel = 0};
    const RunPlan plan = dry_run(options, {.data = 4}, {});
    const double whole = static_cast<double>(plan.parameters()) * 4 * 3 / 4;
    double sent = 0;
    for (const auto& [op, bytes] : plan.of_rank(0).wire_bytes.at("data")) sent += bytes;
    const double expected = stage < 3 ? 2 * whole : 3 * whole;
    // Stage 3 keeps the bucket that backward needs first, and meets the tied embedding again.
    CHECK(sent / expected == Approx(1.0).margin(stage < 3 ? 0.02 : 0.15));
  }
}

TEST_CASE("a loss that is not finite stops the run before the update", "[rankd]") {
  EngineOptions options = options_of({});
  options.optimizer.adam.lr = 1e30;
  options.schedule = {};
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  test::run_ranks(1, [&](Communicator& comm) {
    with_rank(comm, access, [&](auto& rank) {
      Engine engine(options, rank.resources(), std::nullopt);
      engine.initialize();
      CountingSource source(options, 0, 1);
      const auto step = [&] { return train_step(engine, source); };
      rank.run(step);
      CHECK_THROWS_WITH(rank.run(step), Catch::Contains("not both finite"));
    });
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
    engine.store().state().restore_from_owned();
    CHECK(std::isnan(engine.evaluate(source, 1)));
    set_first_weight(engine, 0);
    engine.store().state().restore_from_owned();
    collect(engine, before, mutex);
    train_step(engine, source);
    collect(engine, after, mutex);
    CHECK(after.state != before.state);
  });
}

// One weight becomes NaN after two steps, and with it the loss on every rank.
TEST_CASE("a loss that is not finite leaves weights, slots and step as they were", "[rankd]") {
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  for (Setting setting : {Setting{.ranks = 2}, Setting{.ranks = 2, .dtype = DType::kBF16},
                          Setting{.ranks = 2, .results_late = 1}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      setting.stage = stage;
      const int late = setting.results_late;
      const EngineOptions options = options_of(setting);
      INFO("stage " << stage << ", " << name_of(setting.dtype) << ", late by " << late);
      Outcome before, after;
      std::mutex mutex;
      test::run_ranks(2, [&](Communicator& comm) {
        with_rank(comm, access, [&](auto& rank) {
          RankResources resources = rank.resources();
          resources.results_late = late;
          Engine engine(options, resources, std::nullopt);
          engine.initialize();
          CountingSource source(options, comm.rank(), 2);
          for (int step = 0; step < 2; ++step) {
            rank.run([&] { return train_step(engine, source); });
          }
          if (comm.rank() == 0) set_first_weight(engine, std::nanf(""));
          engine.store().state().restore_from_owned();
          collect(engine, before, mutex);
          std::string message;
          try {
            rank.run([&] {
              for (int ahead = 0; ahead <= late; ++ahead) engine.begin_step(source, 0);
              return engine.next_result(Wait::kYes);
            });
          } catch (const ValidationError& error) {
            message = error.what();
          }
          collect(engine, after, mutex);
          const std::lock_guard lock(mutex);
          CHECK_THAT(message, Catch::Contains("step 3: loss nan") &&
                                  Catch::Contains("the weights are those of step 2"));
          CHECK(engine.step() == 2);
          CHECK(engine.begun() == 2);
        });
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
