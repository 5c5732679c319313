// Offload of activations and of weights through whole runs: the bits of a run without, at any
// number of ranks, and the plan's memory on every tier.
#include "tests/train/offload/offload_settings.h"

namespace ds {
namespace {

using namespace testing;

constexpr int64_t kSteps = 3;

Outcome run_from_nothing(const Setting& setting) {
  MemoryFileSystem disk;
  return train(setting, disk, kSteps);
}

void check_same(const Outcome& got, const Outcome& expected) {
  CHECK(got.state == expected.state);
  CHECK(got.losses == expected.losses);
}

size_t bytes_on(const Outcome& outcome, Tier tier) { return nth(outcome.tiers, tier).bytes_peak; }

TEST_CASE("offloaded activations change no bit, and the plan counts them on the host", "[train]") {
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  for (const auto& [ranks, stage] : {std::pair{1, 0}, {2, 1}, {2, 3}}) {
    CAPTURE(ranks, stage, name_of(dtype));
    Setting setting{.ranks = ranks, .stage = stage, .dtype = dtype, .micro_steps = 2};
    setting.dropout = 0.1;
    const Outcome expected = run_from_nothing(setting);
    setting.offload_activations = true;
    const Outcome got = run_from_nothing(setting);
    check_same(got, expected);
    check_plan(setting, got);
    CHECK(bytes_on(got, Tier::kHost) > 0);
    CHECK(bytes_on(got, Tier::kDevice) < bytes_on(expected, Tier::kDevice));
  }
}

TEST_CASE("offloaded weights change no bit, and lie where the plan says", "[train]") {
  const Tier tier = GENERATE(Tier::kHost, Tier::kNvme);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(ranks, name_of(dtype), name_of(tier));
      Setting setting{.ranks = ranks, .stage = 3, .dtype = dtype, .micro_steps = ranks % 2 + 1};
      const Outcome expected = run_from_nothing(setting);
      setting.params = tier;
      const Outcome got = run_from_nothing(setting);
      check_same(got, expected);
      check_plan(setting, got);
      CHECK(bytes_on(got, Tier::kHost) > 0);
      CHECK((bytes_on(got, Tier::kNvme) > 0) == (tier == Tier::kNvme));
      if (dtype == DType::kBF16) {
        CHECK(bytes_on(got, Tier::kDevice) < bytes_on(expected, Tier::kDevice));
      }
    }
  }
}

TEST_CASE("weights and activations are offloaded together, where nothing stays on the host",
          "[train]") {
  Setting setting{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = 2};
  const Outcome expected = run_from_nothing(setting);
  setting.params = Tier::kNvme;
  setting.host_numel = 0;
  setting.offload_activations = true;
  const Outcome got = run_from_nothing(setting);
  check_same(got, expected);
  check_plan(setting, got);
}

TEST_CASE("a run goes on with weights and activations elsewhere than before", "[train]") {
  const Setting plain{.ranks = 2, .stage = 3, .dtype = DType::kBF16};
  Setting host = plain, nvme = plain, other = plain;
  host.params = Tier::kHost;
  host.offload_activations = true;
  nvme.params = Tier::kNvme;
  other.ranks = 3;
  other.stage = 1;
  MemoryFileSystem whole_disk;
  const Outcome whole = train(plain, whole_disk, 6);
  const std::vector<Setting> order{host, plain, nvme, host, nvme, plain};
  MemoryFileSystem disk;
  Outcome last;
  for (size_t i = 0; i < order.size(); ++i) {
    last = train(order[i], disk, static_cast<int64_t>(i) + 1);
  }
  check_same({.state = last.state, .losses = {}, .memory = {}},
             {.state = whole.state, .losses = {}, .memory = {}});
  CHECK(last.losses.back() == whole.losses.back());
  CHECK(train(other, disk, 6).state == whole.state);  // makes no step
}

// Beside a device each direction has a stream, and the disk a clock of its own.
TEST_CASE("what passes between tiers hides behind what is computed, or is what a step takes",
          "[train]") {
  const auto plan_of = [](const Setting& setting, double bytes_per_s) {
    const DeviceCeilings ceilings{
        .device = Device::cuda(0),
        .flops_per_s = 1e9,
        .bytes_per_s = 1e12,
        .link_bytes_per_s = {bytes_per_s, bytes_per_s, bytes_per_s, bytes_per_s}};
    return dry_run(options_of(setting), {.data = 2}, ceilings).of_rank(0);
  };
  const Setting plain{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = 2};
  Setting offloaded = plain;
  offloaded.params = Tier::kNvme;
  offloaded.offload_activations = true;
  const RankPlan without = plan_of(plain, 1e6), fast = plan_of(offloaded, 1e13);
  for (const double bytes : without.link_bytes) CHECK(bytes == 0);
  for (const double bytes : fast.link_bytes) CHECK(bytes > 0);
  CHECK(fast.seconds_per_step == Approx(without.seconds_per_step).epsilon(0.01));
  const double slow = 1e3;
  const RankPlan waits = plan_of(offloaded, slow);
  double sum = without.seconds_per_step;
  for (const double bytes : waits.link_bytes) {
    CHECK(waits.seconds_per_step >= bytes / slow);
    sum += bytes / slow;
  }
  CHECK(waits.seconds_per_step < sum);
}

TEST_CASE("a slice that no buffer holds is refused before anything is trained", "[train]") {
  EngineOptions options = options_of({.ranks = 2, .stage = 3, .params = Tier::kNvme});
  options.zero.placement.weights.buffer_numel = 100;
  options.zero.placement.weights.host_numel = 0;
  CHECK_THROWS_WITH(dry_run(options, {.data = 2}, {}),
                    Catch::Contains("offload_param.buffer_size: 100 elements"));
}

}  // namespace
}  // namespace ds
