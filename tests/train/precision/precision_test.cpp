// Number formats between weights and the wire: products of narrower operands, gradients that travel
// in another dtype, and what they are divided by on the way.
#include <numeric>

#include "optim/loss_scaler.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;

constexpr int64_t kSteps = 16;

Outcome run_from_nothing(const Setting& setting, int64_t steps = kSteps) {
  MemoryFileSystem disk;
  return train(setting, disk, steps);
}

double mean_loss(const Outcome& outcome) {
  return std::accumulate(outcome.losses.begin(), outcome.losses.end(), 0.0) /
         static_cast<double>(outcome.losses.size());
}

// Single steps of so small a model differ more.
void check_close(const Outcome& one, const Outcome& other, double tolerance) {
  REQUIRE(one.losses.size() == other.losses.size());
  CHECK(mean_loss(one) == Approx(mean_loss(other)).epsilon(tolerance));
  for (size_t i = 0; i < one.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(one.losses[i] == Approx(other.losses[i]).epsilon(3 * tolerance));
  }
}

double bytes_per_step(const Setting& setting, std::string_view op) {
  EngineOptions options = options_of(setting);
  options.zero.layout.persistence_numel = 0;
  double sent = 0;
  const RunPlan plan = dry_run(options, {.data = setting.ranks}, {});
  for (const auto& [name, bytes] : plan.of_rank(0).wire_bytes.at("data")) {
    if (name == op) sent += bytes;
  }
  return sent;
}

TEST_CASE("products of narrower operands train fp32 weights, close to fp32", "[train]") {
  const Outcome fp32 = run_from_nothing({.ranks = 2});
  for (const DType operands : {DType::kF16, DType::kBF16}) {
    CAPTURE(name_of(operands));
    const Setting setting{.ranks = 2, .operands = operands};
    const Outcome outcome = run_from_nothing(setting);
    CHECK(outcome.losses != fp32.losses);
    check_close(outcome, fp32, 0.01);
    for (const int stage : {1, 3}) {
      Setting sharded = setting;
      sharded.stage = stage;
      CHECK(run_from_nothing(sharded).state == outcome.state);
    }
    const MemoryUsage planned =
        nth(dry_run(options_of(setting), {.data = 2}, {}).of_rank(0).memory, Tier::kDevice);
    CHECK(outcome.memory.tag_bytes_at_peak == planned.tag_bytes_at_peak);
  }
}

TEST_CASE("narrower operands have a loss scale where they are fp16", "[train]") {
  const Outcome outcome =
      run_from_nothing({.ranks = 2,
                        .loss_scale = loss_scale_rule({.initial_scale_power = 24}),
                        .operands = DType::kF16});
  CHECK(outcome.skipped.front() == 1);
  CHECK(outcome.skipped.back() < 8);
  CHECK(outcome.losses.back() < outcome.losses.front());
}

TEST_CASE("gradients that travel in 16 bits are half the bytes, and train alike", "[train]") {
  const Outcome fp32 = run_from_nothing({.ranks = 3, .stage = 1});
  for (int stage = 0; stage <= 3; ++stage) {
    CAPTURE(stage);
    const Setting whole{.ranks = 3, .stage = stage};
    Setting narrow = whole;
    narrow.wire = DType::kBF16;
    CHECK(bytes_per_step(narrow, "reduce_scatter") * 2 ==
          Approx(bytes_per_step(whole, "reduce_scatter")).epsilon(0.01));
    if (stage == 0) {
      CHECK(bytes_per_step(narrow, "all_gather") * 2 ==
            Approx(bytes_per_step(whole, "all_gather")).epsilon(0.01));
    }
    const Outcome outcome = run_from_nothing(narrow);
    check_close(outcome, fp32, 0.01);
    CHECK(outcome.losses != fp32.losses);
    const MemoryUsage planned =
        nth(dry_run(options_of(narrow), {.data = 3}, {}).of_rank(0).memory, Tier::kDevice);
    CHECK(outcome.memory.tag_bytes_at_peak == planned.tag_bytes_at_peak);
  }
  const Setting half{.ranks = 2, .stage = 2, .dtype = DType::kBF16};
  Setting wide = half;
  wide.wire = DType::kF32;
  CHECK(bytes_per_step(wide, "reduce_scatter") ==
        Approx(2 * bytes_per_step(half, "reduce_scatter")).epsilon(0.01));
}

TEST_CASE("modules that are safe at lower precision are the ones that travel so", "[train]") {
  const auto sent = [](std::vector<ModuleKind> modules) {
    return bytes_per_step(
        {.ranks = 2, .stage = 2, .wire = DType::kBF16, .wire_modules = std::move(modules)},
        "reduce_scatter");
  };
  const double whole = bytes_per_step({.ranks = 2, .stage = 2}, "reduce_scatter");
  const double none = sent({ModuleKind::kOther});
  const double linear = sent({ModuleKind::kLinear});
  const double more = sent({ModuleKind::kLinear, ModuleKind::kEmbedding});
  CHECK(none == Approx(whole).epsilon(0.01));
  CHECK(linear < 0.6 * whole);
  CHECK(more < linear);
  CHECK(more > 0.49 * whole);
  MemoryFileSystem disk;
  const Setting setting{
      .ranks = 2, .stage = 3, .wire = DType::kBF16, .wire_modules = {ModuleKind::kLinear}};
  const Outcome first = train(setting, disk, 4);
  const Outcome rest = train(setting, disk, 8);  // two groups of parameters are saved and found
  CHECK(rest.state == run_from_nothing(setting, 8).state);
  check_close(first, run_from_nothing({.ranks = 2, .stage = 3}, 4), 0.01);
}

TEST_CASE("gradients that are divided after the reduction make the same updates", "[train]") {
  for (const double factor : {2.0, 0.25}) {  // powers of two: all bits stay
    const Outcome expected = run_from_nothing({.ranks = 2, .stage = 1});
    const Outcome got = run_from_nothing({.ranks = 2, .stage = 1, .gradient_factor = factor});
    CHECK(got.losses == expected.losses);
  }
  const Outcome thirds = run_from_nothing({.ranks = 3, .stage = 1, .gradient_factor = 3.0 / 2});
  check_close(thirds, run_from_nothing({.ranks = 3, .stage = 1}), 1e-4);
}

TEST_CASE("gradients are added up over micro-steps in the dtype that is asked for", "[train]") {
  const Setting wide{.ranks = 2, .stage = 2, .dtype = DType::kBF16, .micro_steps = 3};
  const Outcome fp32 = run_from_nothing(wide, 8);
  for (int stage = 0; stage <= 2; stage += 2) {
    EngineOptions options = options_of(wide);
    options.zero.placement.policy = zero_policy(stage);
    options.zero.wire.slice_dtype = DType::kBF16;
    const auto bytes = [](const EngineOptions& of) {
      const MemoryUsage usage = nth(dry_run(of, {.data = 2}, {}).of_rank(0).memory, Tier::kDevice);
      return usage.tag_bytes_at_peak.at(static_cast<size_t>(MemoryTag::kGradients));
    };
    EngineOptions plain = options_of(wide);
    plain.zero.placement.policy = zero_policy(stage);
    CHECK(bytes(options) < bytes(plain));
    std::mutex mutex;
    std::vector<double> losses;
    test::run_ranks(2, [&](Communicator& comm) {
      Connections connections = Connections::over(comm, {.data = comm.size()});
      Workspace workspace(Device::cpu(), 1, connections.peers());
      Engine engine(options, workspace.resources(), std::nullopt);
      engine.initialize();
      CountingSource source(options, comm.rank(), 2);
      for (const StepResult& result : train_until(engine, source, 8)) {
        const std::lock_guard lock(mutex);
        if (comm.rank() == 0) losses.push_back(result.metrics.at("loss"));
      }
    });
    CHECK(losses != fp32.losses);
    for (size_t i = 0; i < losses.size(); ++i)
      CHECK(losses[i] == Approx(fp32.losses[i]).epsilon(0.01));
  }
}

}  // namespace
}  // namespace ds
