// The engine over a mesh whose data axis is cut: ranks that share out among neighbours.
#include <mutex>

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/ranks.h"
#include "tests/train/runs/small_engine.h"
#include "train/checkpointing.h"
#include "train/plan/dry_run.h"
#include "train/workspace.h"

namespace ds {
namespace {

using namespace testing;

// Loads what there is, trains up to `until`, saves.
Outcome train(const Setting& setting, int shard, FileSystem& files, int64_t until) {
  EngineOptions options = options_of(setting);
  if (shard > 0) options.zero.placement.policy.shard_over = Axis::kShard;
  const MeshSizes sizes{.data = setting.ranks, .shard = std::max(shard, 1)};
  const RunPlan plan = dry_run(options, sizes, {});
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(setting.ranks, [&](Communicator& world) {
    Connections connections = Connections::over(world, sizes);
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), plan.of_rank(world.rank()).step);
    JobPlan job;
    job.rank = world.rank();
    job.world_size = world.size();
    job.run_dir = "/run";
    Checkpointing checkpoints(engine, files, job, {});
    engine.restore_step(checkpoints.load(std::nullopt));
    CountingSource source(options, world.rank(), world.size());
    while (engine.step() < until) {
      const StepResult result = train_step(engine, source);
      if (world.rank() == 0) outcome.losses.push_back(result.metrics.at("loss"));
    }
    checkpoints.save();
    collect(engine, outcome, mutex);
    if (world.rank() == 0) {
      test::require(nth(workspace.usage(), Tier::kDevice).tag_bytes_at_peak ==
                        nth(plan.of_rank(0).memory, Tier::kDevice).tag_bytes_at_peak,
                    "another peak than planned");
    }
  });
  return outcome;
}

TEST_CASE("ranks that share out among neighbours train alike at all stages, with accumulation",
          "[rankd]") {
  for (const int micro_steps : {1, 3}) {
    MemoryFileSystem first_disk, plain_disk;
    const Setting first{.ranks = 4, .stage = 1, .micro_steps = micro_steps};
    const Outcome expected = train(first, 2, first_disk, 3);
    const Outcome plain = train(first, 0, plain_disk, 3);
    CHECK(expected.losses.size() == 3);
    for (size_t i = 0; i < 3; ++i)
      CHECK(expected.losses[i] == Approx(plain.losses[i]).epsilon(1e-5));
    for (const int stage : {2, 3}) {
      CAPTURE(micro_steps, stage);
      MemoryFileSystem disk;
      const Outcome got =
          train({.ranks = 4, .stage = stage, .micro_steps = micro_steps}, 2, disk, 3);
      CHECK(got.state == expected.state);
      CHECK(got.losses == expected.losses);
    }
  }
}

TEST_CASE("a checkpoint of ranks that share out among neighbours loads anywhere, and from anywhere",
          "[rankd]") {
  for (const int stage : {1, 3}) {
    CAPTURE(stage);
    MemoryFileSystem disk;
    const Outcome saved = train({.ranks = 4, .stage = stage}, 2, disk, 2);
    CHECK(train({.ranks = 1, .stage = 0}, 0, disk, 2).state == saved.state);
    CHECK(train({.ranks = 3, .stage = 3}, 0, disk, 2).state == saved.state);
    CHECK(train({.ranks = 4, .stage = 2}, 4, disk, 2).state == saved.state);
    CHECK(train({.ranks = 4, .stage = 3}, 2, disk, 2).state == saved.state);
  }
}

TEST_CASE("a run over neighbours that is resumed has the bits of one that was not", "[rankd]") {
  MemoryFileSystem whole_disk, disk;
  const Setting setting{.ranks = 4, .stage = 2, .micro_steps = 3};
  const Outcome whole = train(setting, 2, whole_disk, 4);
  train(setting, 2, disk, 2);
  const Outcome resumed = train(setting, 2, disk, 4);
  CHECK(resumed.state == whole.state);
  CHECK(resumed.losses.back() == whole.losses.back());
}

TEST_CASE("an engine refuses neighbours beside stages of a pipeline", "[rankd]") {
  const MeshSizes sizes{.pipe = 2, .data = 2, .shard = 2};
  CHECK_THROWS_AS(dry_run(options_of({.global_batch = 4}), sizes, {}), Unsupported);
  CHECK_THROWS_WITH(dry_run(options_of({.global_batch = 4}), sizes, {}),
                    Catch::Contains("stages of a pipeline have theirs whole"));
}

}  // namespace
}  // namespace ds
