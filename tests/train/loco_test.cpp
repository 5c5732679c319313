// Runs whose quantized gradients have error feedback (zeropp_loco_param): they stay nearer to a run
// without codes, are resumed to the bit, and plans count what errors take.
#include <mutex>

#include "optim/loss_scaler.h"
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

enum class Codes : uint8_t { kNone, kPlain, kFedBack };

struct Ranks {
  int all = 4, near = 2;
  MeshSizes sizes() const { return {.data = all, .shard = near}; }
};

EngineOptions with_codes(const Setting& setting, Codes codes) {
  EngineOptions options = options_of(setting);
  options.zero.placement.policy.plus_plus = {.quantized_gradients = codes != Codes::kNone,
                                             .feedback = {.on = codes == Codes::kFedBack}};
  return options;
}

Setting setting_of(Ranks ranks) { return {.ranks = ranks.all, .stage = 3}; }

struct Run {
  Outcome outcome{};
  std::vector<std::string> notices{};
};

// Loads what there is, trains up to `until`, saves.
Run train(const EngineOptions& options, Ranks ranks, FileSystem& files, int64_t until) {
  const RunPlan plan = dry_run(options, ranks.sizes(), {});
  Run run;
  std::mutex mutex;
  test::run_ranks(ranks.all, [&](Communicator& world) {
    Connections connections = Connections::over(world, ranks.sizes());
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
      if (world.rank() == 0) run.outcome.losses.push_back(result.metrics.at("loss"));
    }
    checkpoints.save();
    collect(engine, run.outcome, mutex);
    if (world.rank() == 0) {
      run.notices = checkpoints.notices();
      test::require(nth(workspace.usage(), Tier::kDevice).tag_bytes_at_peak ==
                        nth(plan.of_rank(0).memory, Tier::kDevice).tag_bytes_at_peak,
                    "another peak than planned");
    }
  });
  return run;
}

bool says_anew(const std::vector<std::string>& notices) {
  return std::ranges::any_of(notices, [](const std::string& notice) {
    return notice.find("errors of quantized gradients (zeropp_loco_param) begin anew") !=
           std::string::npos;
  });
}

TEST_CASE("with error feedback losses stay nearer to those of a run without codes", "[train]") {
  constexpr int64_t kSteps = 40;
  const Ranks ranks;
  const auto losses = [&](Codes codes) {
    MemoryFileSystem disk;
    Setting setting = setting_of(ranks);
    setting.optimizer = {.type = OptimizerType::kSgd, .sgd = {.lr = 0.02}};
    setting.clipping = 0;
    return train(with_codes(setting, codes), ranks, disk, kSteps).outcome.losses;
  };
  const std::vector<double> exact = losses(Codes::kNone);
  const auto apart = [&](Codes codes) {
    const std::vector<double> got = losses(codes);
    double sum = 0;
    for (size_t i = kSteps / 2; i < to_size(kSteps); ++i) sum += std::abs(got[i] - exact[i]);
    return sum;
  };
  const double fed_back = apart(Codes::kFedBack), plain = apart(Codes::kPlain);
  CAPTURE(fed_back, plain);
  CHECK(fed_back < 0.6 * plain);
}

TEST_CASE("a run with error feedback that is resumed has the bits of one that was not", "[train]") {
  const Ranks ranks;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const int micro_steps : {1, 3}) {
      CAPTURE(name_of(dtype), micro_steps);
      Setting setting = setting_of(ranks);
      setting.dtype = dtype;
      setting.micro_steps = micro_steps;
      if (dtype == DType::kF16) {
        setting.loss_scale = loss_scale_rule({.initial_scale_power = 24, .loss_scale_window = 2});
      }
      EngineOptions options = with_codes(setting, Codes::kFedBack);
      options.zero.placement.policy.plus_plus.feedback.reset_steps = 4;
      MemoryFileSystem whole_disk, disk;
      const Run whole = train(options, ranks, whole_disk, 7);
      for (const int64_t stop : {2, 4, 6}) train(options, ranks, disk, stop);
      const Run rest = train(options, ranks, disk, 7);
      CHECK(rest.outcome.state == whole.outcome.state);
      CHECK(rest.outcome.losses.back() == whole.outcome.losses.back());
      CHECK_FALSE(says_anew(rest.notices));
    }
  }
}

TEST_CASE("errors begin anew where they are another rank's, and a note says so", "[train]") {
  const auto notes_of = [](Codes before, Ranks after, Codes codes) {
    MemoryFileSystem disk;
    const Ranks ranks;
    train(with_codes(setting_of(ranks), before), ranks, disk, 2);
    return train(with_codes(setting_of(after), codes), after, disk, 3).notices;
  };
  CHECK(says_anew(notes_of(Codes::kFedBack, {2, 2}, Codes::kFedBack)));
  CHECK(says_anew(notes_of(Codes::kPlain, {4, 2}, Codes::kFedBack)));
  CHECK_FALSE(says_anew(notes_of(Codes::kFedBack, {4, 2}, Codes::kFedBack)));
  CHECK_FALSE(says_anew(notes_of(Codes::kFedBack, {4, 2}, Codes::kPlain)));  // which has none
}

TEST_CASE("a plan counts errors, a byte for each number of a rank's codes, and no more traffic",
          "[train]") {
  const Ranks ranks;
  const auto plan_of = [&](Codes codes) {
    return dry_run(with_codes(setting_of(ranks), codes), ranks.sizes(), {});
  };
  const RunPlan plain = plan_of(Codes::kPlain), fed_back = plan_of(Codes::kFedBack);
  CHECK(plain.of_rank(0).wire_bytes == fed_back.of_rank(0).wire_bytes);
  const auto state = [](const RunPlan& plan) {
    return static_cast<double>(
        plan.of_rank(0).memory[0].tag_bytes_at_peak[static_cast<size_t>(MemoryTag::kOptimizer)]);
  };
  // Errors are those of the whole gradient, and of the half that neighbours sum up here.
  const double numbers = 1.5 * static_cast<double>(plain.parameters());
  CHECK(state(fed_back) - state(plain) >= numbers);
  CHECK(state(fed_back) - state(plain) < 1.05 * numbers);
}

}  // namespace
}  // namespace ds
