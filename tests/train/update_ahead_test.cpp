// Training whose state on the host, or in a swap file, is updated while the backward pass goes on,
// before the norm is known: the bits of training without, whether what was made ahead is kept or
// undone, and as much memory as the plan says.
#include <cmath>
#include <cstring>

#include "optim/loss_scaler.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/train/offload/offload_settings.h"
#include "train/settings/observers.h"
#include "train/step/swap.h"

namespace ds {
namespace {

using namespace testing;

Setting ahead(Setting setting, Tier state = Tier::kHost) {
  setting.state = state;
  setting.update_ahead = true;
  if (state == Tier::kNvme) {  // a slice is several parts, of which two are under way at once
    setting.sub_group_numel = 640;
    setting.rolling = {
        .buffers = 2, .pipeline_read = true, .pipeline_write = false, .pinning = Pinning::kNone};
  }
  return setting;
}
SwapOpener swap_in(const TemporaryDirectory& folder, int rank, int ranks) {
  return swap_opener({.nvme_path = folder.path().string(),
                      .of = "state",
                      .owner = {.job = "test", .rank = rank, .world = ranks}});
}
// State is swapped at stage 3 alone.
std::vector<Tier> places_of(const Setting& setting) {
  if (setting.stage < 3) return {Tier::kHost};
  return {Tier::kHost, Tier::kNvme};
}

// Compares runs that update state ahead with one whose state is on the device.
void check_like_on_device(const Setting& plain) {
  MemoryFileSystem plain_disk;
  const Outcome expected = train(plain, plain_disk, 3);
  for (const Tier place : places_of(plain)) {
    const Setting setting = ahead(plain, place);
    INFO(words_of(setting) << ", clipped to " << setting.clipping);
    MemoryFileSystem disk;
    const Outcome got = train(setting, disk, 3);
    CHECK(got.losses == expected.losses);
    CHECK(got.state == expected.state);
    CHECK(got.scales == expected.scales);  // which follow the steps that are skipped
  }
}

// Clipping to 1 undoes the first steps, to 0.01 all of them, and none without clipping.
TEST_CASE("state that is updated ahead trains to the same bits", "[train]") {
  const int ranks = GENERATE(1, 2, 4);
  const int stage = GENERATE(1, 2, 3);
  for (const double clipping : {0.0, 1.0, 0.01}) {
    Setting plain{.ranks = ranks, .stage = stage, .micro_steps = 1};
    plain.clipping = clipping;
    check_like_on_device(plain);
    plain.dtype = DType::kBF16;
    plain.micro_steps = 3;
    plain.results_late = 1;
    check_like_on_device(plain);
  }
}

TEST_CASE("a share of the state, weights elsewhere and small parts are updated ahead as well",
          "[train]") {
  for (const double ratio : {0.0, 0.3, 1.0}) {
    for (const auto& [state, params] : {std::pair{Tier::kHost, Tier::kDevice},
                                        {Tier::kHost, Tier::kHost},
                                        {Tier::kHost, Tier::kNvme},
                                        {Tier::kNvme, Tier::kDevice},
                                        {Tier::kNvme, Tier::kHost},
                                        {Tier::kNvme, Tier::kNvme}}) {
      Setting plain{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = 2};
      MemoryFileSystem plain_disk, disk;
      const Outcome expected = train(plain, plain_disk, 3);
      Setting setting = ahead(plain, state);
      setting.offload_ratio = ratio;
      setting.params = params;
      setting.sub_group_numel = 640;
      INFO(words_of(setting));
      const Outcome got = train(setting, disk, 3);
      CHECK(got.losses == expected.losses);
      CHECK(got.state == expected.state);
      check_plan(setting, got);
    }
  }
}

TEST_CASE("every rule that works element by element can be ahead, with any state", "[train]") {
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig{.type = OptimizerType::kLion, .lion = {.lr = 0.001}},
        OptimizerConfig{.type = OptimizerType::kAdagrad, .adagrad = {.lr = 0.01}},
        OptimizerConfig{.type = OptimizerType::kSgd, .sgd = {.lr = 0.1}},
        OptimizerConfig{.type = OptimizerType::kAdamW,
        .adam = {.lr = 0.001},
        .moment_dtype = MomentType::kMxFp8,
        .param_groups = {{.match = {"*bias"}, .lr = 0.003}}}}) {
    for (const double clipping : {0.0, 0.01}) {
      Setting plain{.ranks = 2, .stage = 3, .optimizer = optimizer};
      plain.clipping = clipping;
      check_like_on_device(plain);
    }
  }
}

// A scale that overflows, one that falls until it fits, and one that stays.
TEST_CASE("a loss scale that skips steps undoes what was made of them ahead", "[train]") {
  for (const int late : {0, 1}) {
    for (const LossScaleRule& scale :
         {loss_scale_rule({.loss_scale = 128}), loss_scale_rule({.initial_scale_power = 40}),
          loss_scale_rule({.initial_scale_power = 18, .hysteresis = 1})}) {
      Setting fp16{.ranks = 2, .stage = 3, .dtype = DType::kF16, .results_late = late};
      fp16.loss_scale = scale;
      fp16.clipping = 0;
      check_like_on_device(fp16);
    }
  }
}

TEST_CASE("the plan of an update ahead has what it takes to go back, and is what it takes",
          "[train]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Setting setting = ahead({.ranks = 2, .stage = 2, .dtype = dtype, .micro_steps = 2});
    MemoryFileSystem disk;
    const Outcome got = train(setting, disk, 2);
    check_plan(setting, got);
    setting.update_ahead = false;
    MemoryFileSystem plain_disk;
    const Outcome plain = train(setting, plain_disk, 2);
    const auto host_bytes = [](const Outcome& of) { return nth(of.tiers, Tier::kHost).bytes_peak; };
    // Master and two slots of each of a rank's weights, beside which there are gradients.
    const size_t gradients =
        nth(nth(plain.tiers, Tier::kHost).tag_bytes_at_peak, MemoryTag::kGradients);
    CHECK(host_bytes(got) - host_bytes(plain) >= gradients / size_of(DType::kF32) * 12);
  }
}

TEST_CASE(
    "the plan of an update ahead of swapped state has a second place of all of it, and new "
    "weights on the host",
    "[train]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Setting setting =
        ahead({.ranks = 2, .stage = 3, .dtype = dtype, .micro_steps = 2}, Tier::kNvme);
    MemoryFileSystem disk, plain_disk;
    const Outcome got = train(setting, disk, 2);
    check_plan(setting, got);
    Setting without = setting;
    without.update_ahead = false;
    const Outcome plain = train(without, plain_disk, 2);
    const auto more = [&](Tier tier) {
      return nth(got.tiers, tier).bytes_peak - nth(plain.tiers, tier).bytes_peak;
    };
    const RunPlan plan = dry_run(options_of(setting), {.data = 2}, {});
    const auto numel = narrow<size_t>(plan.parameters() / 2);  // of a rank, or a little more
    CHECK(more(Tier::kNvme) >= numel * 12);
    CHECK(more(Tier::kHost) >= numel * size_of(dtype));
    CHECK(more(Tier::kHost) < numel * size_of(dtype) * 5 / 4);
    // Gradients are written, and not read again; states pass as often as without.
    const RunPlan before = dry_run(options_of(without), {.data = 2}, {});
    const auto bytes = [](const RunPlan& of, Link link) {
      return nth(of.of_rank(0).link_bytes, link);
    };
    CHECK(bytes(plan, Link::kNvmeWrite) == bytes(before, Link::kNvmeWrite));
    CHECK(bytes(plan, Link::kNvmeRead) < bytes(before, Link::kNvmeRead));
  }
}

// Beside a device the updater has a clock of its own.
TEST_CASE("what is updated ahead hides behind the backward pass", "[train]") {
  const auto seconds_of = [](const Setting& setting, double disk) {
    const DeviceCeilings ceilings{.device = Device::cuda(0),
                                  .flops_per_s = 1e9,
                                  .bytes_per_s = 1e8,
                                  .link_bytes_per_s = {1e12, 1e12, disk, disk},
                                  .host_bytes_per_s = 1e8};
    return dry_run(options_of(setting), {.data = 2}, ceilings).of_rank(0).seconds_per_step;
  };
  const Setting on_device{.ranks = 2, .stage = 3, .dtype = DType::kBF16};
  for (const Tier place : {Tier::kHost, Tier::kNvme}) {
    for (const double disk : {1e7, 1e12}) {
      const Setting with = ahead(on_device, place);
      Setting without = with;
      without.update_ahead = false;
      CAPTURE(name_of(place), disk);
      CHECK(seconds_of(with, disk) < seconds_of(without, disk));
    }
  }
}

TEST_CASE("a step that is not finite leaves nothing of what was updated ahead", "[train]") {
  const Tier place = GENERATE(Tier::kHost, Tier::kNvme);
  for (const int late : {0, 1}) {
    for (int stage = place == Tier::kNvme ? 3 : 1; stage <= 3; ++stage) {
      CAPTURE(name_of(place), stage, late);
      Setting setting = ahead({.ranks = 2, .stage = stage, .results_late = late}, place);
      setting.clipping = 0;
      const EngineOptions options = options_of(setting);
      Outcome before, after;
      std::mutex mutex;
      const TemporaryDirectory folder;
      test::run_ranks(2, [&](Communicator& comm) {
        const auto rank = plain_rank(comm);
        RankResources resources = rank->resources();
        resources.open_state_swap = swap_in(folder, comm.rank(), comm.size());
        resources.results_late = late;
        Engine engine(options, resources, std::nullopt);
        engine.initialize();
        CountingSource source(options, comm.rank(), 2);
        for (int step = 0; step < 2; ++step) train_step(engine, source);
        if (comm.rank() == 0) set_first_weight(engine, std::nanf(""));
        engine.store().state().restore_from_owned();
        collect(engine, before, mutex);
        const auto step = [&] {
          for (int more = 0; more <= late; ++more) engine.begin_step(source, 0);
          return engine.next_result(Wait::kYes);
        };
        CHECK_THROWS_AS(step(), ValidationError);
        collect(engine, after, mutex);
      });
      REQUIRE(before.state.size() == after.state.size());
      for (const auto& [name, values] : before.state) {
        INFO(name);
        REQUIRE(std::memcmp(values.data(), after.state.at(name).data(),
                            values.size() * sizeof(float)) == 0);
      }
    }
  }
}

// What ends a step early, as a lost peer does, on the thread that the updater works beside.
TEST_CASE("a step that breaks off leaves nothing of what was updated ahead", "[train]") {
  class Breaks final : public StepObserver {
   public:
    void after_instruction(int64_t, const PipelineInstruction& instruction) override {
      if (instruction.op == PipelineOp::kBackwardPass) throw CommError("a peer is lost");
    }
  };
  Setting setting = ahead({.stage = 3}, GENERATE(Tier::kHost, Tier::kNvme));
  setting.clipping = 0;
  const EngineOptions options = options_of(setting);
  std::mutex mutex;
  const TemporaryDirectory folder;
  Outcome before, after, whole, resumed;
  test::run_ranks(1, [&](Communicator& comm) {
    const auto three_steps = [&](bool breaks, Outcome& end) {
      const auto rank = plain_rank(comm);
      RankResources resources = rank->resources();
      resources.open_state_swap = swap_in(folder, 0, 1);
      Engine engine(options, resources, std::nullopt);
      engine.initialize();
      CountingSource source(options, 0, 1);
      for (int step = 0; step < 3; ++step) {
        if (breaks && step == 2) {
          collect(engine, before, mutex);
          Breaks observer;
          CHECK_THROWS_AS(engine.begin_step(source, 0, &observer), CommError);
          collect(engine, after, mutex);
        }
        train_step(engine, source);
      }
      collect(engine, end, mutex);
    };
    three_steps(false, whole);
    three_steps(true, resumed);
  });
  CHECK(after.state == before.state);
  CHECK(resumed.state == whole.state);
}

TEST_CASE("an update ahead is element by element", "[train]") {
  const Setting lamb = ahead({.ranks = 2, .stage = 3, .optimizer = {.type = OptimizerType::kLamb}});
  CHECK_THROWS_WITH(dry_run(options_of(lamb), {.data = 2}, {}),
                    Catch::Contains("an update ahead of the norm"));
}

}  // namespace
}  // namespace ds
