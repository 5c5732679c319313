// Steps whose samples grow: each does what a run of samples of that length does, in places of its
// own within the memory of the longest.
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

constexpr int64_t kSteps = 4;

// Steps 1 to 4 have 4, 8, 12 and 16 tokens.
Setting growing(Setting setting) {
  setting.lengths = CurriculumOptions{.min_difficulty = 4,
                                      .max_difficulty = 16,
                                      .schedule_type = "fixed_discrete",
                                      .difficulty = {4, 8, 12, 16},
                                      .max_step = {1, 2, 3}};
  return setting;
}

std::vector<Setting> settings() {
  return {Setting{.micro_steps = 2, .dropout = 0.1},
          Setting{.ranks = 2, .stage = 3, .micro_steps = 2},
          Setting{.ranks = 2, .sequence = 2},
          Setting{.ranks = 2, .sequence = 2, .ring = 2},
          Setting{.ranks = 2, .tensor = 2, .stage = 1, .shares_rows = true},
          Setting{.ranks = 2, .pipe = 2, .micro_steps = 3},
          Setting{.ranks = 2, .stage = 2, .state = Tier::kHost}};
}

TEST_CASE("a step of a length has the bits of a run of that length", "[train]") {
  for (const Setting& setting : settings()) {
    CAPTURE(setting.ranks, setting.stage, setting.sequence, setting.ring, setting.tensor,
            setting.pipe);
    const Setting all = growing(setting);
    MemoryFileSystem alike;  // of one run after another, each of one length
    for (int64_t step = 1; step <= kSteps; ++step) {
      MemoryFileSystem own;
      const Outcome grown = train(all, own, step);
      EngineOptions options = options_of(setting);
      options.length = 4 * step;
      const Outcome one = train(setting, options, alike, step);
      CAPTURE(step);
      CHECK(one.state == grown.state);
      REQUIRE(one.losses.size() == 1);
      CHECK(one.losses.back() == grown.losses.back());
    }
  }
}

TEST_CASE("the peak of steps of several lengths is that of the longest, and each has its plan",
          "[train]") {
  for (const Setting& setting : settings()) {
    CAPTURE(setting.ranks, setting.stage, setting.sequence, setting.tensor, setting.pipe);
    const RunPlan longest = dry_run(options_of(setting), mesh_of(setting), {});
    const EngineOptions options = options_of(growing(setting));
    const RunPlan plan = dry_run(options, mesh_of(setting), {});
    for (int rank = 0; rank < setting.ranks; ++rank) {
      const RankPlan& own = plan.of_rank(rank);
      CHECK(nth(own.memory, Tier::kDevice).bytes_peak ==
            nth(longest.of_rank(rank).memory, Tier::kDevice).bytes_peak);
      REQUIRE(own.shapes.size() == 4);
      size_t before = SIZE_MAX;
      for (const auto& [shape, step] : own.shapes) {
        CHECK(step == shape.length / 4);
        CHECK(own.step.train.at(shape).bytes_total() < before);
        before = own.step.train.at(shape).bytes_total();
      }
    }
    moved_by(growing(setting), options);  // the first step, of the shortest
    test::run_ranks(setting.ranks, [&](Communicator& world) {
      Connections connections = Connections::over(world, plan.mesh);
      Workspace workspace(Device::cpu(), 1, connections.peers());
      const RankPlan& own = plan.of_rank(world.rank());
      Engine engine(options, workspace.resources(), own.step);
      engine.initialize();
      CountingSource source(options, engine.mesh());
      for (int64_t step = 0; step < kSteps; ++step) {
        const StepResult result = train_step(engine, source);
        test::require(result.metrics.at("sequence_length") == static_cast<double>(4 * (step + 1)),
                      "another length");
      }
      engine.evaluate(source, 1);
      test::require(nth(workspace.usage(), Tier::kDevice).tag_bytes_at_peak ==
                        nth(own.memory, Tier::kDevice).tag_bytes_at_peak,
                    "rank {}: another peak than planned", world.rank());
    });
  }
}

TEST_CASE("what is planned says how long samples are and from which step on", "[train]") {
  const EngineOptions options = options_of(growing({}));
  const std::string text = plan_text(dry_run(options, mesh_of({}), {}), options);
  CHECK_THAT(text, Catch::Contains("lengths       4 of samples"));
  CHECK_THAT(text, Catch::Contains("12 tokens") && Catch::Contains("from step 3 on"));
  CHECK_THAT(plan_text(dry_run(options_of({}), mesh_of({}), {}), options_of({})),
             !Catch::Contains("lengths"));
}

}  // namespace
}  // namespace ds
