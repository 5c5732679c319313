// Training with weights and optimizer state beside the device at once, on the host or in swap
// files: the bits of training without, at any mix of the two; checkpoints that know nothing of it;
// and as much memory of each tier, and as many bytes over each link, as the plan says.
#include "optim/loss_scaler.h"
#include "tests/train/offload/offload_settings.h"

namespace ds {
namespace {

using namespace testing;

constexpr int64_t kSteps = 3;

Outcome run_from_nothing(const Setting& setting) {
  MemoryFileSystem disk;
  return train(setting, disk, kSteps);
}

void check_like_on_device(const Setting& plain) {
  const Outcome expected = run_from_nothing(plain);
  for (const Setting& setting : offloads_of_both(plain)) {
    INFO(words_of(setting));
    const Outcome got = run_from_nothing(setting);
    CHECK(got.losses == expected.losses);
    CHECK(got.state == expected.state);
    check_plan(setting, got);
  }
}

TEST_CASE("weights and state beside the device train to the same bits, as the plan has them",
          "[train]") {
  const int ranks = GENERATE(1, 2, 3, 4);
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  check_like_on_device(
      {.ranks = ranks, .stage = 3, .dtype = dtype, .micro_steps = ranks == 3 ? 2 : 1});
  if (ranks <= 2) {
    check_like_on_device({.ranks = ranks, .stage = 3, .dtype = dtype, .micro_steps = 3});
  }
}

TEST_CASE("weights and state beside the device, without clipping, with results that come late",
          "[train]") {
  Setting late{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = 2};
  late.results_late = 1;
  late.clipping = 0;
  check_like_on_device(late);
}

TEST_CASE("weights and state beside the device stay as they are in a step that is skipped",
          "[train]") {
  Setting fp16{.ranks = 2, .stage = 3, .dtype = DType::kF16};
  fp16.loss_scale = loss_scale_rule({.initial_scale_power = 22});
  const Outcome expected = run_from_nothing(fp16);
  CHECK(expected.skipped.back() > 0);
  check_like_on_device(fp16);
}

TEST_CASE("one buffer is enough for weights in a swap file that are made in two shares",
          "[train]") {
  Setting setting{.ranks = 2, .stage = 3, .dtype = DType::kBF16};
  const Outcome expected = run_from_nothing(setting);
  setting.params = setting.state = Tier::kNvme;
  setting.offload_ratio = 0.3;
  setting.host_numel = 0;
  EngineOptions options = options_of(setting);
  options.zero.placement.weights.buffers = options.zero.layout.gather.fetches = 1;
  MemoryFileSystem disk;
  CHECK(train(setting, options, disk, kSteps).state == expected.state);
}

TEST_CASE("a run goes on with weights and state elsewhere than before", "[train]") {
  const Setting plain{.ranks = 2, .stage = 3, .dtype = DType::kBF16};
  MemoryFileSystem whole_disk;
  const Outcome whole = train(plain, whole_disk, 4);
  std::vector<Setting> ways = offloads_of_both(plain);
  ways.push_back(plain);
  ways.push_back({.ranks = 2, .stage = 3, .dtype = DType::kBF16, .params = Tier::kNvme});
  ways.push_back({.ranks = 2, .stage = 2, .dtype = DType::kBF16, .state = Tier::kHost});
  for (size_t i = 0; i < ways.size(); ++i) {
    const Setting& first = ways[i];
    const Setting& second = ways[(i * 5 + 1) % ways.size()];
    INFO(words_of(first) << "; then " << words_of(second));
    MemoryFileSystem disk;
    train(first, disk, 2);
    CHECK(train(second, disk, 4).state == whole.state);
    Setting other_ranks = second;
    other_ranks.ranks = i % 2 == 0 ? 1 : 3;
    CHECK(train(other_ranks, disk, 4).state == whole.state);  // makes no step
  }
}

// Bytes of a step over each link, of two ranks beside a device.
std::array<double, kLinks> links_of(const Setting& setting) {
  const DeviceCeilings ceilings{.device = Device::cuda(0)};
  return dry_run(options_of(setting), {.data = 2}, ceilings).of_rank(0).link_bytes;
}

TEST_CASE("the plan counts what state beside the device moves over each link", "[train]") {
  Setting host{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .state = Tier::kHost};
  const auto once = links_of(host);
  CHECK(once == links_of(host));
  const double weights = nth(once, Link::kToDevice);  // new ones, in bf16
  CHECK(weights > 0);
  CHECK(nth(once, Link::kToHost) == weights);  // gradients, in bf16
  CHECK(nth(once, Link::kNvmeRead) + nth(once, Link::kNvmeWrite) == 0);
  host.micro_steps = 3;  // sums in fp32, which come back twice
  const auto thrice = links_of(host);
  CHECK(nth(thrice, Link::kToHost) == 3 * 2 * weights);
  CHECK(nth(thrice, Link::kToDevice) == weights + 2 * 2 * weights);
  Setting nvme = host;
  nvme.state = Tier::kNvme;
  const auto swapped = links_of(nvme);
  CHECK(nth(swapped, Link::kToHost) == nth(thrice, Link::kToHost));
  CHECK(nth(swapped, Link::kToDevice) == nth(thrice, Link::kToDevice));
  // Master and two moments both ways, and the gradient three times; the extents of small tensors
  // are a little longer than what is in them.
  CHECK(nth(swapped, Link::kNvmeRead) >= 6 * weights + 3 * 2 * weights);
  CHECK(nth(swapped, Link::kNvmeRead) <= 1.05 * (6 * weights + 3 * 2 * weights));
  CHECK(nth(swapped, Link::kNvmeWrite) == nth(swapped, Link::kNvmeRead));
}

TEST_CASE("the plan counts no way for weights that are made where they lie", "[train]") {
  Setting params{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .params = Tier::kHost};
  Setting both = params, state = params;
  both.state = state.state = Tier::kHost;
  state.params = Tier::kDevice;
  const auto of_params = links_of(params), of_both = links_of(both), of_state = links_of(state);
  // Weights that lie beside the device go up only when they are fetched; small ones go up, too.
  CHECK(nth(of_both, Link::kToDevice) >= nth(of_params, Link::kToDevice));
  CHECK(nth(of_both, Link::kToDevice) <
        nth(of_params, Link::kToDevice) + 0.1 * nth(of_state, Link::kToDevice));
  CHECK(nth(of_both, Link::kToHost) == nth(of_state, Link::kToHost));
  both.params = params.params = Tier::kNvme;
  both.host_numel = params.host_numel = 0;
  const auto whole = links_of(params);
  CHECK(nth(links_of(both), Link::kNvmeWrite) == nth(whole, Link::kNvmeWrite));
  both.offload_ratio = 0.3;  // a slice is read and written for each of its two shares
  const double slices = nth(whole, Link::kNvmeWrite);
  CHECK(nth(links_of(both), Link::kNvmeWrite) == 2 * slices);
  CHECK(nth(links_of(both), Link::kNvmeRead) == nth(whole, Link::kNvmeRead) + 2 * slices);
}

TEST_CASE("what a swap file takes hides behind what is computed, or is what a step takes",
          "[train]") {
  const auto plan_of = [](const Setting& setting, double bytes_per_s) {
    const DeviceCeilings ceilings{
        .device = Device::cuda(0),
        .flops_per_s = 1e9,
        .bytes_per_s = 1e12,
        .link_bytes_per_s = {bytes_per_s, bytes_per_s, bytes_per_s, bytes_per_s},
        .host_flops_per_s = 1e9,
        .host_bytes_per_s = 1e12};
    return dry_run(options_of(setting), {.data = 2}, ceilings).of_rank(0);
  };
  Setting plain{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = 2};
  Setting swapped = plain;
  swapped.params = swapped.state = Tier::kNvme;
  swapped.sub_group_numel = 640;
  const double slow = 1e3;
  const RankPlan one_by_one = plan_of(swapped, slow);
  swapped.rolling = {
      .buffers = 3, .pipeline_read = true, .pipeline_write = true, .pinning = Pinning::kNone};
  const RankPlan both_ways = plan_of(swapped, slow);
  CHECK(both_ways.link_bytes == one_by_one.link_bytes);
  const double disk =
      (nth(both_ways.link_bytes, Link::kNvmeRead) + nth(both_ways.link_bytes, Link::kNvmeWrite)) /
      slow;
  CHECK(both_ways.seconds_per_step >= disk);
  CHECK(both_ways.seconds_per_step < one_by_one.seconds_per_step);
  CHECK(plan_of(swapped, 1e13).seconds_per_step ==
        Approx(plan_of(plain, 1e13).seconds_per_step).epsilon(0.01));
}

// Both are updated by the host, so that the bits are the same.
TEST_CASE("weights beside a device are made there by the host, and are what training goes on from",
          "[.][cuda]") {
  if (test_device().device == Device::cpu()) return;
  const int ranks = GENERATE(1, 2);
  Setting setting{.ranks = ranks,
                  .stage = 3,
                  .dtype = DType::kBF16,
                  .micro_steps = 2,
                  .host_access = HostAccess::kNever};
  setting.state = Tier::kHost;
  const Outcome expected = run_from_nothing(setting);
  for (const Tier state : {Tier::kHost, Tier::kNvme}) {
    for (const Tier params : {Tier::kHost, Tier::kNvme}) {
      CAPTURE(ranks, name_of(state), name_of(params));
      setting.state = state;
      setting.params = params;
      const Outcome got = run_from_nothing(setting);
      CHECK(got.losses == expected.losses);
      CHECK(got.state == expected.state);
    }
  }
  setting.offload_ratio = 0.3;
  const Outcome in_shares = run_from_nothing(setting);
  CHECK(in_shares.losses.back() == Approx(expected.losses.back()).epsilon(0.01));
}

}  // namespace
}  // namespace ds
