// What the host beside a device takes of a step, and what hides behind what, by numbers worked out
// by hand.
#include "config/reader/json_reader.h"
#include "tests/support/catch.h"
#include "tests/train/runs/small_engine.h"
#include "train/plan/dry_run.h"
#include "zero/state/optimizer_state_store.h"

namespace ds {
namespace {

using testing::options_of;
using testing::Setting;

constexpr double kNever = 1e18;  // bytes per second of what is to take no time

DeviceCeilings free_device() {
  return {.device = Device::cuda(0),
          .flops_per_s = kNever,
          .bytes_per_s = kNever,
          .link_bytes_per_s = {kNever, kNever, kNever, kNever},
          .host_flops_per_s = kNever,
          .host_bytes_per_s = kNever};
}

// Adam on fp32 masters and moments with gradients and weights in bf16: each of the three is read
// and written, the gradient read, the weight written.
constexpr double kUpdateBytes = 3 * 2 * 4 + 2 + 2;

Setting on_host() { return {.stage = 2, .dtype = DType::kBF16, .state = Tier::kHost}; }

RankPlan plan_of(const Setting& setting, const DeviceCeilings& ceilings) {
  return dry_run(options_of(setting), {.data = setting.ranks}, ceilings).of_rank(0);
}

// Elements that the rank updates: its gradients go to the host in bf16, once.
double updated(const RankPlan& plan) { return nth(plan.link_bytes, Link::kToHost) / 2; }

TEST_CASE("the host's update takes what the host's memory gives, not the device's", "[train]") {
  DeviceCeilings ceilings = free_device();
  ceilings.host_bytes_per_s = 1e6;
  const RankPlan plan = plan_of(on_host(), ceilings);
  const double seconds = updated(plan) * kUpdateBytes / 1e6;
  CHECK(plan.seconds_per_step == Approx(seconds));
  CHECK(nth(plan.busy, Busy::kHost) == Approx(seconds));
  CHECK(plan.bound() == Busy::kHost);
  ceilings.host_bytes_per_s = 4e6;
  CHECK(plan_of(on_host(), ceilings).seconds_per_step == Approx(seconds / 4));
  // 15 operations an element, where they are what takes longest.
  ceilings.host_flops_per_s = 1e3;
  CHECK(plan_of(on_host(), ceilings).seconds_per_step == Approx(updated(plan) * 15 / 1e3));
  // What the device can do says nothing of it.
  ceilings = free_device();
  ceilings.bytes_per_s = 1e6;
  const Setting on_device{.stage = 2, .dtype = DType::kBF16};
  const double without = plan_of(on_device, ceilings).seconds_per_step;
  CHECK(plan_of(on_host(), ceilings).seconds_per_step < without - 0.9 * seconds);
}

TEST_CASE("gradients go to the host and weights back, one after the other around the update",
          "[train]") {
  DeviceCeilings ceilings = free_device();
  nth(ceilings.link_bytes_per_s, Link::kToHost) = 1e6;
  nth(ceilings.link_bytes_per_s, Link::kToDevice) = 2e6;
  const RankPlan plan = plan_of(on_host(), ceilings);
  const double down = 2 * updated(plan) / 1e6, up = 2 * updated(plan) / 2e6;
  CHECK(plan.seconds_per_step == Approx(down + up));
  CHECK(nth(plan.busy, Busy::kToHost) == Approx(down));
  CHECK(nth(plan.busy, Busy::kToDevice) == Approx(up));
  CHECK(plan.bound() == Busy::kToHost);
}

TEST_CASE("an update ahead has its share of the host, and hides behind the backward pass",
          "[train]") {
  DeviceCeilings ceilings = free_device();
  ceilings.host_bytes_per_s = 1e6;
  ceilings.updater_share = 0.5;
  Setting ahead = on_host();
  ahead.update_ahead = true;
  const RankPlan alone = plan_of(ahead, ceilings);
  // Weights are rounded when the norm is known, with all of the host: 4 bytes read, 2 written.
  const double update = updated(alone) * (kUpdateBytes - 2) / 0.5e6;
  CHECK(alone.seconds_per_step >= Approx(update));
  CHECK(nth(alone.busy, Busy::kHost) >= Approx(update));
  ceilings.flops_per_s = 1e5;  // the step takes much longer than the update
  const RankPlan hidden = plan_of(ahead, ceilings);
  Setting plain = ahead;
  plain.update_ahead = false;
  CHECK(hidden.bound() == Busy::kCompute);
  CHECK(hidden.seconds_per_step <
        plan_of(plain, ceilings).seconds_per_step - 0.5 * updated(alone) * kUpdateBytes / 1e6);
}

// A state store on meta tensors: a stream of the device, one of the host and a disk, each with its
// clock.
struct StoreClocks {
  explicit StoreClocks(const DeviceCeilings& all)
      : ceilings(all),
        host_ceilings(all.of_host()),
        compute(ceilings),
        host(host_ceilings),
        disk(ceilings) {}

  // The seconds that a visit takes.
  double update(OptimizerStateStore& state) {
    const double began = now();
    for (CostClock* clock : {&compute, &host, &disk}) clock->not_before(began);
    state.visit(PartAccess::kUpdate, [](OpenPart& open) {
      const auto numel = static_cast<double>(open.part.numel);
      open.stream.report("adam_update", {.flops = 0, .bytes = kUpdateBytes * numel});
    });
    return now() - began;
  }
  double now() const { return std::max({compute.now(), host.now(), disk.now()}); }

  const DeviceCeilings ceilings, host_ceilings;
  CostClock compute, host, disk;
  MetaMemory memory;
  MemoryAccount nvme;
  Stream device_stream{{.device = Device::meta(),
                        .memory = &memory,
                        .trace = &compute,
                        .stands_for = Device::cuda(0)}};
  Stream host_stream{{.device = Device::meta(), .memory = &memory, .trace = &host}};
  Stream disk_stream{{.device = Device::meta(), .memory = &memory, .trace = &disk}};
};

std::vector<StateSlice> slices_of(StoreClocks& clocks, const std::vector<int64_t>& numels) {
  std::vector<StateSlice> slices;
  for (const int64_t numel : numels) {
    slices.push_back({.weights = Tensor::empty({numel}, DType::kBF16, clocks.device_stream)});
  }
  return slices;
}

StateOptions adam_state() {
  return {.slots = {{.name = "exp_avg"}, {.name = "exp_avg_sq"}}, .grad_dtype = DType::kBF16};
}

// The host makes the weights of a part while those of the part before go up, from two places: the
// third part waits until the first has gone.
TEST_CASE("weights go up while the host updates the next part", "[train]") {
  constexpr int64_t kNumel = 1024;
  DeviceCeilings ceilings = free_device();
  ceilings.host_bytes_per_s = kUpdateBytes * kNumel;  // a part takes 1 s
  const auto seconds = [&](double copy_seconds, const std::vector<int64_t>& numels) {
    nth(ceilings.link_bytes_per_s, Link::kToDevice) = 2 * kNumel / copy_seconds;
    StoreClocks clocks(ceilings);
    const auto state = make_host_state(adam_state(), slices_of(clocks, numels),
                                       clocks.device_stream, {clocks.host_stream, nullptr});
    return clocks.update(*state);
  };
  // Updated 0-1, 1-2, 2-3; sent 1-1.5, 2-2.5, 3-3.5.
  CHECK(seconds(0.5, {kNumel, kNumel, kNumel}) == Approx(3.5));
  CHECK(seconds(2, {kNumel, kNumel, kNumel}) == Approx(7));
  // Updated 0-1, 1-2, 3-7 (the first place is free at 3); sent 1-3, 3-5, 7-15.
  CHECK(seconds(2, {kNumel, kNumel, 4 * kNumel}) == Approx(15));
}

// Four parts, each read for 1 s (state and gradient), updated for 2 s, written for 1 s.
TEST_CASE("a part is read and written while the host updates another", "[train]") {
  constexpr int64_t kNumel = 1024;
  DeviceCeilings ceilings = free_device();
  ceilings.host_bytes_per_s = kUpdateBytes * kNumel / 2;
  nth(ceilings.link_bytes_per_s, Link::kNvmeRead) = (12 + 2) * kNumel;
  nth(ceilings.link_bytes_per_s, Link::kNvmeWrite) = 12 * kNumel;
  const auto seconds = [&](const NvmeStateOptions& rolling) {
    StoreClocks clocks(ceilings);
    const auto state = make_nvme_state(
        adam_state(), slices_of(clocks, std::vector<int64_t>(4, kNumel)), clocks.device_stream,
        {clocks.host_stream, nullptr},
        {.open = nullptr, .account = clocks.nvme, .disk = &clocks.disk_stream}, rolling);
    return clocks.update(*state);
  };
  CHECK(seconds({.buffers = 1}) == Approx(4 * (1 + 2 + 1)));
  // The first is read before anything is updated, the others meanwhile.
  CHECK(seconds({.buffers = 2, .pipeline_read = true}) == Approx(1 + 4 * (2 + 1)));
  // Read 0-1, 1-2, 4-5, 6-7; updated 1-3, 3-5, 5-7, 7-9; written 3-4, 5-6, 7-8, 9-10.
  CHECK(seconds({.buffers = 3, .pipeline_read = true, .pipeline_write = true}) == Approx(10));
}

TEST_CASE("a plan names what takes longest of a step, and what goes on beside it", "[train]") {
  Setting setting{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .state = Tier::kNvme};
  setting.sub_group_numel = 640;
  DeviceCeilings ceilings = free_device();
  ceilings.host_bytes_per_s = 1e7;
  nth(ceilings.link_bytes_per_s, Link::kNvmeRead) = 1e6;
  nth(ceilings.link_bytes_per_s, Link::kNvmeWrite) = 2e6;
  const EngineOptions options = options_of(setting);
  RunPlan plan = dry_run(options, {.data = 2}, ceilings);
  const RankPlan& one = plan.of_rank(0);
  const double disk =
      nth(one.link_bytes, Link::kNvmeRead) / 1e6 + nth(one.link_bytes, Link::kNvmeWrite) / 2e6;
  CHECK(nth(one.busy, Busy::kNvme) == Approx(disk));
  CHECK(one.bound() == Busy::kNvme);
  CHECK_THAT(
      plan_text(plan, options),
      Catch::Contains(fmt::format("bound         NVMe, {:.3f} s of it; besides ", disk)) &&
          Catch::Contains(fmt::format("the host's update {:.3f} s", nth(one.busy, Busy::kHost))));
  const Value json = read_config_document(plan_json(plan), "plan");
  CHECK(json.find("bound")->as_string() == "nvme");
  CHECK(json.find("busy_seconds")->find("nvme")->as_number() == Approx(disk));
  CHECK(json.find("busy_seconds")->find("host_update")->as_number() ==
        Approx(nth(one.busy, Busy::kHost)));
  plan = dry_run(options_of({.ranks = 2, .stage = 3}), {.data = 2}, {});
  CHECK(plan_text(plan, options).find("bound ") == std::string::npos);
}

TEST_CASE("a host with GPUs gives a rank what its threads reach, and no more than its share",
          "[train]") {
  const auto host = [](int threads, int ranks) {
    return cuda_ceilings(DType::kBF16, threads, ranks).host_bytes_per_s;
  };
  CHECK(host(1, 1) == Approx(1.5e10));
  CHECK(host(4, 8) == Approx(5e10));  // 6e10 by its threads
  CHECK(host(4, 2) == Approx(6e10));
  CHECK(host(64, 1) == Approx(4e11));    // of 9.6e11
  CHECK(host(64, 512) == Approx(5e10));  // eight in each host
}

}  // namespace
}  // namespace ds
