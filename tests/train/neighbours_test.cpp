// Training over ranks that are near each other: ZeRO++ and MiCS, over whole steps of the engine.
// What changes no number has the bits of plain stage 3; what sends codes comes near it, has the
// same bits on every rank and after a resume, and moves and keeps what the plan says.
#include <cmath>
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

struct Way {
  ZeroPlusPlus plus_plus{};
  int near = 1;
  Axis shard_over = Axis::kData;
  bool by_thread = false;  // with peers talks a thread of its own
};

const Way kAll{.plus_plus = {.quantized_weights = true,
                             .quantized_gradients = true,
                             .secondary_weights = true},
               .near = 2};

struct Run {
  Outcome outcome;
  std::vector<double> last_losses;        // of each rank, of one evaluation after all steps
  CommVolume::ByAxis traffic;             // of rank 0's last step
  std::map<std::string, double> planned;  // bytes of a step by axis
};

// Loads what there is, trains up to `until`, saves.
Run train(const Setting& setting, const Way& way, FileSystem& files, int64_t until) {
  EngineOptions options = options_of(setting);
  options.zero.placement.policy.plus_plus = way.plus_plus;
  options.zero.placement.policy.shard_over = way.shard_over;
  const MeshSizes sizes{.data = setting.ranks, .shard = way.near};
  const RunPlan plan = dry_run(options, sizes, {.overlaps_communication = way.by_thread});
  Run run;
  for (const auto& [axis, ops] : plan.of_rank(0).wire_bytes) {
    for (const auto& [op, bytes] : ops) run.planned[axis + "." + op] += bytes;
  }
  run.last_losses.resize(to_size(setting.ranks));
  std::mutex mutex;
  test::run_ranks(setting.ranks, [&](Communicator& world) {
    CommVolume volume;
    Connections connections = Connections::over(world, sizes, {.volume = &volume});
    Workspace workspace({.overlaps_communication = way.by_thread}, connections.peers());
    Engine engine(options, workspace.resources(), plan.of_rank(world.rank()).step);
    JobPlan job;
    job.rank = world.rank();
    job.world_size = world.size();
    job.run_dir = "/run";
    Checkpointing checkpoints(engine, files, job, {});
    engine.restore_step(checkpoints.load(std::nullopt));
    CountingSource source(options, world.rank(), world.size());
    while (engine.step() < until) {
      volume.reset();
      const StepResult result = train_step(engine, source);
      if (world.rank() == 0) run.outcome.losses.push_back(result.metrics.at("loss"));
    }
    const CommVolume::ByAxis traffic = volume.totals();
    checkpoints.save();
    // Every rank the same samples: losses are equal to the bit where weights are.
    CountingSource same(options, 0, 1);
    const double loss = engine.evaluate(same, 1);
    collect(engine, run.outcome, mutex);
    nth(run.last_losses, world.rank()) = loss;
    if (world.rank() == 0) {
      run.traffic = traffic;
      test::require(nth(workspace.usage(), Tier::kDevice).tag_bytes_at_peak ==
                        nth(plan.of_rank(0).memory, Tier::kDevice).tag_bytes_at_peak,
                    "another peak than planned");
    }
  });
  return run;
}

Run train(const Setting& setting, const Way& way, int64_t until = 4) {
  MemoryFileSystem disk;
  return train(setting, way, disk, until);
}

TEST_CASE("a secondary copy changes where weights come from, and no bit", "[rankd]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int micro_steps : {1, 3}) {
      for (const int near : {2, 4}) {
        CAPTURE(static_cast<int>(dtype), micro_steps, near);
        const Setting setting{.ranks = 4, .stage = 3, .dtype = dtype, .micro_steps = micro_steps};
        const Run plain = train(setting, {});
        const Run copied = train(setting, {.plus_plus = {.secondary_weights = true}, .near = near});
        CHECK(copied.outcome.state == plain.outcome.state);
        CHECK(copied.outcome.losses == plain.outcome.losses);
        const auto& data = copied.traffic.at("data").at("all_gather");
        CHECK(data.wire_bytes < plain.traffic.at("data").at("all_gather").wire_bytes);
      }
    }
  }
}

TEST_CASE("a thread that talks to peers changes no bit, no traffic and no way to go on",
          "[rankd]") {
  for (const int stage : {2, 3}) {
    for (const int micro_steps : {1, 3}) {
      for (const Way& way : {Way{}, kAll}) {
        if (stage == 2 && (way.near > 1 || micro_steps == 1)) continue;
        CAPTURE(stage, micro_steps, way.near);
        const Setting setting{
            .ranks = 4, .stage = stage, .dtype = DType::kBF16, .micro_steps = micro_steps};
        Way by_thread = way;
        by_thread.by_thread = true;
        const Run in_turn = train(setting, way);
        MemoryFileSystem disk;
        train(setting, by_thread, disk, 2);
        const Run resumed = train(setting, by_thread, disk, 4);
        const Run whole = train(setting, by_thread);
        CHECK(whole.outcome.state == in_turn.outcome.state);
        CHECK(resumed.outcome.state == in_turn.outcome.state);
        CHECK(whole.outcome.losses == in_turn.outcome.losses);
        CHECK(whole.last_losses == in_turn.last_losses);
        CHECK(whole.traffic == in_turn.traffic);
        CHECK(whole.planned == in_turn.planned);
      }
    }
  }
}

TEST_CASE("with all of ZeRO++ training comes near plain stage 3, alike on every rank", "[rankd]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int micro_steps : {1, 3}) {
      CAPTURE(static_cast<int>(dtype), micro_steps);
      const Setting setting{.ranks = 4, .stage = 3, .dtype = dtype, .micro_steps = micro_steps};
      const Run plain = train(setting, {}, 8);
      const Run all = train(setting, kAll, 8);
      // Gradients of 4 bits; in bf16 products round as the CPU does, and with AMX 1.2 % come of it.
      const double within = dtype == DType::kF32 ? 0.01 : 0.02;
      CHECK(all.outcome.state != plain.outcome.state);
      for (size_t i = 0; i < plain.outcome.losses.size(); ++i) {
        CHECK(all.outcome.losses[i] == Approx(plain.outcome.losses[i]).epsilon(within));
      }
      for (const auto& [axis, ops] : all.traffic) {
        for (const auto& [op, count] : ops) {
          CAPTURE(axis, op);
          CHECK(static_cast<double>(count.wire_bytes) == all.planned.at(axis + "." + op));
        }
      }
      CHECK(all.planned.at("replica.all_to_all") > 0);
    }
  }
}

TEST_CASE("a run with all of ZeRO++ that is resumed has the bits of one that was not", "[rankd]") {
  MemoryFileSystem whole_disk, disk;
  const Setting setting{.ranks = 4, .stage = 3, .dtype = DType::kBF16, .micro_steps = 3};
  const Run whole = train(setting, kAll, whole_disk, 4);
  train(setting, kAll, disk, 2);
  const Run resumed = train(setting, kAll, disk, 4);
  CHECK(resumed.outcome.state == whole.outcome.state);
  CHECK(resumed.outcome.losses.back() == whole.outcome.losses.back());
  // And anywhere else, where slices are other ones.
  CHECK(train({.ranks = 3, .stage = 1}, {}, disk, 4).outcome.state == whole.outcome.state);
  CHECK(train({.ranks = 2, .stage = 3, .dtype = DType::kBF16},
              {.plus_plus = {.quantized_weights = true}}, disk, 4)
            .outcome.state == whole.outcome.state);
}

TEST_CASE("state and weights that lie elsewhere have the same bits under quantization", "[rankd]") {
  const ZeroPlusPlus codes{.quantized_weights = true, .quantized_gradients = true};
  for (const int micro_steps : {1, 3}) {
    const Setting here{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = micro_steps};
    const Run expected = train(here, {.plus_plus = codes, .near = 2});
    Setting state = here, weights = here;
    state.state = Tier::kHost;
    weights.params = Tier::kHost;
    CHECK(train(state, {.plus_plus = codes, .near = 2}).outcome.state == expected.outcome.state);
    CHECK(train(weights, {.plus_plus = codes, .near = 2}).outcome.state == expected.outcome.state);
  }
}

TEST_CASE("an overflow under quantized gradients skips the step on every rank", "[rankd]") {
  Setting setting{.ranks = 4, .stage = 3, .dtype = DType::kF16, .micro_steps = 1};
  setting.loss_scale = {.kind = LossScaling::kDynamic,
                        .options = {.init_scale = 0x1p40, .window = 100}};
  const Run run = train(setting, kAll, 2);  // such a scale is beyond fp16: both steps are skipped
  const Run none = train(setting, kAll, 0);
  CHECK(run.outcome.state == none.outcome.state);
}

TEST_CASE("a MiCS shard of all ranks is stage 3 to the bit, smaller ones come near it", "[rankd]") {
  for (const int micro_steps : {1, 3}) {
    const Setting setting{.ranks = 4, .stage = 3, .micro_steps = micro_steps};
    const Run plain = train(setting, {});
    const Run whole = train(setting, {.near = 4, .shard_over = Axis::kShard});
    CHECK(whole.outcome.state == plain.outcome.state);
    CHECK(whole.outcome.losses == plain.outcome.losses);
    const Run halves = train(setting, {.near = 2, .shard_over = Axis::kShard});
    for (size_t i = 0; i < plain.outcome.losses.size(); ++i) {
      CHECK(halves.outcome.losses[i] == Approx(plain.outcome.losses[i]).epsilon(1e-5));
    }
    // Weights are gathered among neighbours alone, as codes where they are wanted; over all ranks
    // only the sums of a step are.
    CHECK(halves.traffic.at("data").at("all_gather").wire_bytes < 1000);
    const Run codes = train(
        setting, {.plus_plus = {.quantized_weights = true}, .near = 2, .shard_over = Axis::kShard});
    CHECK(codes.traffic.at("shard").at("all_gather").wire_bytes <
          halves.traffic.at("shard").at("all_gather").wire_bytes / 2);
  }
}

}  // namespace
}  // namespace ds
