// Training on a device: what the CPU's runs are told by holds there, and against the CPU's own
// numbers, which kernels with sums of another order come close to.
#include <cmath>
#include <cstdio>

#include "optim/loss_scaler.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"
#include "train/step/prefetching_source.h"

namespace ds {
namespace {

using namespace testing;

const bool is_for_choice = [] {
  test_device().probe = [] {
    if (test_device().device != Device::cpu()) make_device_queue(test_device().device);
  };
  return test_device().is_for_choice = true;
}();

// On a CPU there is nothing to compare; CTest is told.
bool has_device() {
  const bool has = test_device().device != Device::cpu();
  if (!has) std::puts("skipped: --device names no device");
  return has;
}

constexpr int64_t kSteps = 4;

Setting on(HostAccess access, Setting setting) {
  setting.host_access = access;
  return setting;
}

Outcome run_from_nothing(const Setting& setting, int64_t steps) {
  MemoryFileSystem disk;
  return train(setting, disk, steps);
}

void check_close(const Outcome& one, const Outcome& other, double tolerance) {
  REQUIRE(one.losses.size() == other.losses.size());
  for (size_t i = 0; i < one.losses.size(); ++i) {
    CAPTURE(i);
    CHECK(one.losses[i] == Approx(other.losses[i]).epsilon(tolerance));
  }
}

TEST_CASE("a device trains as the CPU does", "[.][cuda]") {
  if (!has_device()) return;
  const int ranks = GENERATE(1, 2);
  const int stage = GENERATE(0, 1, 2, 3);
  const DType dtype = stage == 3 ? DType::kBF16 : DType::kF32;  // a run takes seconds
  CAPTURE(ranks, stage, name_of(dtype));
  const Setting setting{.ranks = ranks, .stage = stage, .dtype = dtype, .micro_steps = 2};
  const Outcome cpu = run_from_nothing(setting, kSteps);
  const Outcome device = run_from_nothing(on(HostAccess::kNever, setting), kSteps);
  CHECK(cpu.losses.front() != cpu.losses.back());
  check_close(device, cpu, dtype == DType::kF32 ? 1e-5 : 1e-2);
}

TEST_CASE("stages and ranks of a device give the bits of one rank", "[.][cuda]") {
  if (!has_device()) return;
  const Setting one{.host_access = HostAccess::kNever};
  const Outcome expected = run_from_nothing(one, kSteps);
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    Setting sharded = one;
    sharded.stage = stage;
    CHECK(run_from_nothing(sharded, kSteps).state == expected.state);
    sharded.ranks = 2;
    check_close(run_from_nothing(sharded, kSteps), expected, 1e-5);
  }
}

// The first step is made without graphs, the second records them.
TEST_CASE("steps that are recorded and replayed give the bits of steps that are not", "[.][cuda]") {
  if (!has_device()) return;
  const int ranks = GENERATE(1, 2);
  const int stage = GENERATE(0, 1, 2, 3);
  const int micro_steps = stage % 2 == 0 ? 3 : 1;
  if (ranks > 1 && !test_device().is_emulated) {
    WARN("ranks with GPUs of their own were not tried");
    return;
  }
  CAPTURE(ranks, stage, micro_steps);
  Setting setting{.ranks = ranks,
                  .stage = stage,
                  .dtype = stage == 2 ? DType::kBF16 : DType::kF32,
                  .micro_steps = micro_steps,
                  .host_access = HostAccess::kNever,
                  .devices = Devices::kOwn,
                  .cuda_graphs = false,
                  .dropout = 0.1};
  const Outcome expected = run_from_nothing(setting, kSteps);
  setting.cuda_graphs = true;
  const Outcome replayed = run_from_nothing(setting, kSteps);
  CHECK(replayed.losses == expected.losses);
  CHECK(replayed.state == expected.state);
  CHECK(replayed.losses.front() != replayed.losses.back());
}

// Results come a step late there, and the scale that a graph reads lies in memory.
TEST_CASE("the loss scale of a device is the CPU's, with steps that are recorded too",
          "[.][cuda]") {
  if (!has_device()) return;
  Setting setting{.ranks = 1,
                  .stage = 1,
                  .dtype = DType::kF16,
                  .loss_scale = loss_scale_rule({.initial_scale_power = 22})};
  const Outcome cpu = run_from_nothing(setting, 8);
  CHECK(cpu.skipped.front() == 1);
  setting.host_access = HostAccess::kNever;
  setting.devices = Devices::kOwn;
  const Outcome device = run_from_nothing(setting, 8);
  CHECK(device.scales == cpu.scales);
  CHECK(device.skipped == cpu.skipped);
  check_close(device, cpu, 1e-2);
  setting.cuda_graphs = false;
  CHECK(run_from_nothing(setting, 8).state == device.state);
}

TEST_CASE("samples of documents that grow train on a device as on the CPU, recorded or not",
          "[.][cuda]") {
  if (!has_device()) return;
  Setting setting{
      .micro_steps = 2,
      .content = {.key_ranges = true, .positions = true, .weights = true, .is_uneven = true},
      .lengths = CurriculumOptions{.min_difficulty = 8,
                                   .max_difficulty = 16,
                                   .schedule_type = "fixed_discrete",
                                   .difficulty = {8, 16},
                                   .max_step = {4}}};
  constexpr int64_t kRecorded = 7;  // steps: of each shape one without a recording, and some by it
  const Outcome cpu = run_from_nothing(setting, kRecorded);
  setting.host_access = HostAccess::kNever;
  const Outcome device = run_from_nothing(setting, kRecorded);
  check_close(device, cpu, 1e-4);
  setting.cuda_graphs = false;
  CHECK(run_from_nothing(setting, kRecorded).state == device.state);
}

TEST_CASE("a run on a device that was stopped and resumed has the bits of one that was not",
          "[.][cuda]") {
  if (!has_device()) return;
  const Setting setting{.ranks = 2, .stage = 3, .host_access = HostAccess::kNever};
  MemoryFileSystem disk;
  train(setting, disk, 2);
  CHECK(train(setting, disk, kSteps).state == run_from_nothing(setting, kSteps).state);
}

TEST_CASE("a tag of one kind of device is gone on from by the other", "[.][cuda]") {
  if (!has_device()) return;
  const bool device_first = GENERATE(true, false);
  const Setting first{.ranks = device_first ? 1 : 2,
                      .stage = 2,
                      .host_access = device_first ? HostAccess::kNever : HostAccess::kAlways};
  const Setting second{.ranks = 2,
                       .stage = 3,
                       .host_access = device_first ? HostAccess::kAlways : HostAccess::kNever};
  MemoryFileSystem disk;
  const Outcome begun = train(first, disk, 2);
  const Outcome loaded = train(second, disk, 2);  // makes no step
  CHECK(loaded.state == begun.state);
  const Outcome resumed = train(second, disk, kSteps);
  const Outcome whole = run_from_nothing({.ranks = 2, .stage = 3}, kSteps);
  CHECK(resumed.losses.back() == Approx(whole.losses.back()).epsilon(1e-5));
}

TEST_CASE("weights and activations beside a device come back with their bits, also in graphs",
          "[.][cuda]") {
  if (!has_device()) return;
  const Tier tier = GENERATE(Tier::kHost, Tier::kNvme);
  const int ranks = GENERATE(1, 2);
  CAPTURE(name_of(tier), ranks);
  Setting setting{.ranks = ranks,
                  .stage = 3,
                  .dtype = DType::kBF16,
                  .micro_steps = 2,
                  .host_access = HostAccess::kNever,
                  .devices = ranks == 1 ? Devices::kOwn : Devices::kShared};
  const Outcome expected = run_from_nothing(setting, kSteps);
  setting.params = tier;
  setting.offload_activations = true;
  const Outcome offloaded = run_from_nothing(setting, kSteps);
  CHECK(offloaded.losses == expected.losses);
  CHECK(offloaded.state == expected.state);
  const RunPlan plan =
      dry_run(options_of(setting), {.data = ranks}, ceilings_of(setting.host_access));
  const RankPlan& planned = plan.of_rank(0);
  // A run reads its batches ahead into pinned memory, which this one, without a loader, does not.
  const size_t pinned = nth(offloaded.tiers, Tier::kPinned).bytes_peak;
  const size_t most = nth(planned.memory, Tier::kPinned).bytes_peak;
  const EngineOptions options = options_of(setting);
  CHECK(pinned <= most);
  CHECK(most <= pinned + PrefetchingSource::block_bytes(text_batches(options)));
  CHECK(nth(offloaded.tiers, Tier::kNvme).bytes_peak ==
        nth(planned.memory, Tier::kNvme).bytes_peak);
  CHECK(nth(planned.link_bytes, Link::kToDevice) > 0);
}

TEST_CASE("what the dry run plans for a device is what the device's memory is asked for",
          "[.][cuda]") {
  if (!has_device()) return;
  const int stage = GENERATE(0, 3);
  const Setting setting{.ranks = 2, .stage = stage, .host_access = HostAccess::kNever};
  const RunPlan plan = dry_run(options_of(setting), {.data = 2}, ceilings_of(setting.host_access));
  const auto planned = static_cast<double>(nth(plan.of_rank(0).memory, Tier::kDevice).bytes_peak);
  const MemoryUsage usage = run_from_nothing(setting, 2).memory;
  const auto measured = static_cast<double>(usage.bytes_peak);
  CAPTURE(stage, planned, measured);
  CHECK(std::abs(measured / planned - 1) <= 0.02);
  // What products have of it is more than those 2 %.
  const auto of_products = static_cast<double>(kernels::matmul_scratch_bytes(test_device().device));
  CHECK(of_products > 0.02 * planned);
  CHECK(static_cast<double>(nth(usage.tag_bytes_at_peak, MemoryTag::kScratch)) >= of_products);
}

TEST_CASE("TF32 rounds what a device multiplies, and nothing else", "[.][cuda]") {
  if (!has_device()) return;
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  const Setting exact{.dtype = dtype, .host_access = HostAccess::kNever};
  Setting rounded = exact;
  rounded.allow_tf32 = true;
  const Outcome expected = run_from_nothing(exact, kSteps);
  const Outcome outcome = run_from_nothing(rounded, kSteps);
  check_close(outcome, expected, 1e-3);
  CHECK((outcome.losses == expected.losses) == (dtype == DType::kBF16));
  // A CPU has no such products.
  Setting on_cpu = on(HostAccess::kAlways, exact);
  const Outcome cpu = run_from_nothing(on_cpu, kSteps);
  on_cpu.allow_tf32 = true;
  CHECK(run_from_nothing(on_cpu, kSteps).state == cpu.state);
}

}  // namespace
}  // namespace ds
