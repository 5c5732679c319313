// Runs with the 1-bit optimizers: the warm-up is the plain optimizer, a resumed run has the bits of
// one without a stop, what another number of ranks loses, and what a plan counts.
#include <algorithm>
#include <cmath>

#include "optim/loss_scaler.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;

template <class Params>
Params with_rates(Params params) {
  params.lr = 0.01;
  params.betas = {0.9, 0.9};
  // Gradients that are nothing but rounding, such as that of the keys' bias, become no step.
  params.eps = 1e-3;
  params.weight_decay = 0.1;
  return params;
}

OptimizerConfig onebit_adam(int64_t freeze_step) {
  OneBitAdamParams params;
  params.freeze_step = freeze_step;
  return {.type = OptimizerType::kOneBitAdam, .onebit_adam = with_rates(params)};
}
OptimizerConfig onebit_lamb(int64_t freeze_step) {
  OneBitLambParams params;
  params.freeze_step = freeze_step;
  return {.type = OptimizerType::kOneBitLamb, .onebit_lamb = with_rates(params)};
}
// Its updates 6 and 9 have a gradient in one bit, and from 11 on ranks agree at every fourth.
OptimizerConfig zero_one_adam() {
  ZeroOneAdamParams params;
  params.var_freeze_step = 9;
  params.var_update_scaler = 2;
  params.local_step_scaler = 1;
  params.local_step_clipper = 4;
  return {.type = OptimizerType::kZeroOneAdam, .zero_one_adam = with_rates(params)};
}
std::vector<OptimizerConfig> all_of_them() {
  return {onebit_adam(5), onebit_lamb(5), zero_one_adam()};
}

Setting setting_of(const OptimizerConfig& optimizer, int ranks) {
  Setting setting{.ranks = ranks};
  setting.optimizer = optimizer;
  return setting;
}

Outcome run_from_nothing(const Setting& setting, int64_t steps) {
  MemoryFileSystem disk;
  return train(setting, disk, steps);
}

double largest_difference(const Outcome& a, const Outcome& b) {
  double largest = 0;
  for (const auto& [name, values] : a.state) {
    if (!name.ends_with("/weight")) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::abs(values[i] - b.state.at(name)[i])));
    }
  }
  return largest;
}

// The data of step n, at step n + 1.
class Later final : public BatchSource {
 public:
  explicit Later(BatchSource& source) : source_(source) {}
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override {
    source_.fill(std::max<int64_t>(step, 1) - 1, micro_step, batch);
  }
  int64_t first_sample(int micro_step) const override { return source_.first_sample(micro_step); }

 private:
  BatchSource& source_;
};

Outcome plain_run(const Setting& setting, int64_t steps, bool later) {
  EngineOptions options = options_of(setting);
  options.schedule = {};
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    with_rank(comm, setting.host_access, [&](auto& rank) {
      Engine engine(options, rank.resources(), std::nullopt);
      engine.initialize();
      CountingSource source(options, comm.rank(), comm.size());
      Later moved(source);
      BatchSource& from = later ? static_cast<BatchSource&>(moved) : source;
      rank.run([&] { return train_until(engine, from, steps); });
      collect(engine, outcome, mutex);
    });
  });
  return outcome;
}

TEST_CASE("the warm-up is Adam or LAMB without bias correction, one step late", "[train]") {
  constexpr int64_t kSteps = 12;
  const AdamParams adam{
      .lr = 0.01, .betas = {0.9, 0.9}, .eps = 1e-3, .weight_decay = 0.1, .bias_correction = false};
  const LambParams lamb{
      .lr = 0.01, .bias_correction = false, .betas = {0.9, 0.9}, .eps = 1e-3, .weight_decay = 0.1};
  for (const int ranks : {1, 2, 3}) {
    for (const int micro_steps : {1, 2}) {
      CAPTURE(ranks, micro_steps);
      const auto run = [&](const OptimizerConfig& optimizer, int64_t steps, bool later) {
        Setting setting = setting_of(optimizer, ranks);
        setting.micro_steps = micro_steps;
        return plain_run(setting, steps, later);
      };
      const Outcome plain_adam = run({.adam = adam}, kSteps, false);
      CHECK(largest_difference(run(onebit_adam(100), kSteps + 1, true), plain_adam) < 1e-6);
      const Outcome plain_lamb = run({.type = OptimizerType::kLamb, .lamb = lamb}, kSteps, false);
      CHECK(largest_difference(run(onebit_lamb(100), kSteps + 1, true), plain_lamb) < 1e-6);
      CHECK(largest_difference(plain_adam, plain_lamb) > 1e-3);
    }
  }
}

TEST_CASE("a run with a 1-bit optimizer is resumed to the bit, at every step", "[train]") {
  constexpr int64_t kSteps = 24;
  for (const OptimizerConfig& optimizer : all_of_them()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Setting setting = setting_of(optimizer, 2);
      setting.dtype = dtype;
      const Outcome whole = run_from_nothing(setting, kSteps);
      CHECK(whole.losses.back() < whole.losses.front() - 0.05);
      for (const int64_t stop : {1, 4, 5, 6, 8, 11, 13, 14, 17}) {
        CAPTURE(static_cast<int>(*optimizer.type), stop);
        MemoryFileSystem disk;
        train(setting, disk, stop);
        const Outcome rest = train(setting, disk, kSteps);
        CHECK(rest.state == whole.state);
        CHECK(rest.losses == std::vector(whole.losses.begin() + stop, whole.losses.end()));
      }
    }
  }
}

TEST_CASE("with another number of ranks errors begin anew, and a note says so", "[train]") {
  for (const OptimizerConfig& optimizer : all_of_them()) {
    CAPTURE(static_cast<int>(*optimizer.type));
    const Outcome whole = run_from_nothing(setting_of(optimizer, 2), 15);
    for (const int ranks : {1, 3}) {
      MemoryFileSystem disk;
      train(setting_of(optimizer, 2), disk, 14);
      Setting other = setting_of(optimizer, ranks);
      const Outcome rest = train(other, disk, 24);
      CHECK(rest.losses.size() == 10);
      // 0/1 Adam's from where its ranks agreed last.
      CHECK(std::abs(rest.losses.front() - whole.losses.back()) < 0.1);
    }
    MemoryFileSystem disk;
    train(setting_of(optimizer, 2), disk, 14);
    const EngineOptions options = options_of(setting_of(optimizer, 3));
    std::vector<std::string> notices;
    test::run_ranks(3, [&](Communicator& comm) {
      with_rank(comm, HostAccess::kAlways, [&](auto& rank) {
        Engine engine(options, rank.resources(), std::nullopt);
        JobPlan job;
        job.rank = comm.rank();
        job.world_size = comm.size();
        job.run_dir = "/run";
        Checkpointing checkpoints(engine, disk, job, {});
        engine.restore_step(checkpoints.load(std::nullopt));
        if (comm.rank() == 0) notices = checkpoints.notices();
      });
    });
    CAPTURE(notices);
    CHECK(std::ranges::any_of(notices, [](const std::string& notice) {
      return notice.find("server_error and worker_error of the optimizer") != std::string::npos &&
             notice.find("of another number of ranks") != std::string::npos;
    }));
  }
}

TEST_CASE("a loss scale skips steps of 1-bit optimizers as of others", "[train]") {
  for (const OptimizerConfig& optimizer : all_of_them()) {
    CAPTURE(static_cast<int>(*optimizer.type));
    Setting setting = setting_of(optimizer, 2);
    setting.dtype = DType::kF16;
    setting.loss_scale = loss_scale_rule({.initial_scale_power = 24, .loss_scale_window = 2});
    const Outcome outcome = run_from_nothing(setting, 30);
    CHECK(outcome.skipped.front() == 1);
    CHECK(outcome.skipped.back() > outcome.skipped[10]);  // after the warm-up, too
    CHECK(std::isfinite(outcome.losses.back()));
    Setting late = setting;
    late.results_late = 1;
    CHECK(run_from_nothing(late, 30).state == outcome.state);
  }
}

TEST_CASE("a plan counts errors, and the bytes of the stage that a run comes to", "[train]") {
  constexpr int kRanks = 2;
  const auto plan_of = [](const OptimizerConfig& optimizer, int64_t last) {
    EngineOptions options = options_of(setting_of(optimizer, kRanks));
    options.last_step = last;
    return dry_run(options, {.data = kRanks}, {});
  };
  const auto bytes_of = [](const RunPlan& plan) {
    double sum = 0;
    for (const auto& [op, bytes] : plan.of_rank(0).wire_bytes.at("data")) sum += bytes;
    return sum;
  };
  const auto state_of = [](const RunPlan& plan) {
    return plan.of_rank(0).memory[0].tag_bytes_at_peak[static_cast<size_t>(MemoryTag::kOptimizer)];
  };
  const RunPlan adam = plan_of({.adam = {}}, 100), warm = plan_of(onebit_adam(50), 50);
  const RunPlan onebit = plan_of(onebit_adam(50), 100);
  const auto numel = static_cast<double>(adam.parameters());
  CHECK(bytes_of(warm) == bytes_of(adam));
  // Half of the signs of n numbers, twice, and scales; padding is little.
  CHECK(bytes_of(onebit) > numel / 8);
  CHECK(bytes_of(onebit) < 1.05 * numel / 8 + 2000);
  CHECK(bytes_of(adam) > 25 * bytes_of(onebit));
  // Worker errors are fp32 per weight, server errors half of that.
  const auto errors = static_cast<double>(state_of(onebit) - state_of(adam));
  CHECK(errors >= 6 * numel);
  CHECK(errors < 6.2 * numel);
  CHECK(state_of(warm) == state_of(onebit));
}

}  // namespace
}  // namespace ds
