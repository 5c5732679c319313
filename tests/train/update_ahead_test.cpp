// Training whose state on the host is updated while the backward pass goes on, before the norm is
// known: the bits of training without, whether what was made ahead is kept or undone, and as much
// memory as the plan says.
#include <cmath>
#include <cstring>

#include "optim/loss_scaler.h"
#include "tests/train/offload_settings.h"
#include "train/observers.h"

namespace ds {
namespace {

using namespace testing;

Setting ahead(Setting setting) {
  setting.state = Tier::kHost;
  setting.update_ahead = true;
  return setting;
}

// Of a run with state on the device and of one that updates it ahead on the host.
void check_like_on_device(const Setting& plain) {
  MemoryFileSystem plain_disk, disk;
  const Outcome expected = train(plain, plain_disk, 3);
  const Setting setting = ahead(plain);
  INFO(words_of(setting) << ", clipped to " << setting.clipping);
  const Outcome got = train(setting, disk, 3);
  CHECK(got.losses == expected.losses);
  CHECK(got.state == expected.state);
  CHECK(got.scales == expected.scales);  // which follow the steps that are skipped
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
    for (const Tier params : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
      Setting plain{.ranks = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = 2};
      MemoryFileSystem plain_disk, disk;
      const Outcome expected = train(plain, plain_disk, 3);
      Setting setting = ahead(plain);
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

// Beside a device the updater has a clock of its own.
TEST_CASE("what is updated ahead hides behind the backward pass", "[train]") {
  const auto seconds_of = [](const Setting& setting) {
    const DeviceCeilings ceilings{.device = Device::cuda(0),
                                  .flops_per_s = 1e9,
                                  .bytes_per_s = 1e8,
                                  .link_bytes_per_s = {1e12, 1e12, 1e12, 1e12},
                                  .host_bytes_per_s = 1e8};
    return dry_run(options_of(setting), {.data = 2}, ceilings).of_rank(0).seconds_per_step;
  };
  const Setting on_device{.ranks = 2, .stage = 2, .dtype = DType::kBF16};
  Setting after = ahead(on_device);
  after.update_ahead = false;
  CHECK(seconds_of(ahead(on_device)) < seconds_of(after));
}

TEST_CASE("a step that is not finite leaves nothing of what was updated ahead", "[train]") {
  for (const int late : {0, 1}) {
    for (int stage = 1; stage <= 3; ++stage) {
      CAPTURE(stage, late);
      Setting setting = ahead({.ranks = 2, .stage = stage, .results_late = late});
      setting.clipping = 0;
      const EngineOptions options = options_of(setting);
      Outcome before, after;
      std::mutex mutex;
      test::run_ranks(2, [&](Communicator& comm) {
        PlainRank rank(comm, {.data = comm.size()});
        RankResources resources = rank.resources();
        resources.results_late = late;
        Engine engine(options, resources, std::nullopt);
        engine.initialize();
        CountingSource source(options, comm.rank(), 2);
        for (int step = 0; step < 2; ++step) train_step(engine, source);
        if (comm.rank() == 0) set_first_weight(engine, std::nanf(""));
        engine.store().restore_from_owned();
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
  Setting setting = ahead({.stage = 3});
  setting.clipping = 0;
  const EngineOptions options = options_of(setting);
  std::mutex mutex;
  Outcome before, after, whole, resumed;
  test::run_ranks(1, [&](Communicator& comm) {
    const auto three_steps = [&](bool breaks, Outcome& end) {
      PlainRank rank(comm, {.data = comm.size()});
      Engine engine(options, rank.resources(), std::nullopt);
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

TEST_CASE("an update ahead is of state on the host, element by element", "[train]") {
  Setting nvme = ahead({.ranks = 2, .stage = 3});
  nvme.state = Tier::kNvme;
  CHECK_THROWS_WITH(dry_run(options_of(nvme), {.data = 2}, {}),
                    Catch::Contains("an update ahead of the norm"));
  const Setting lamb = ahead({.ranks = 2, .stage = 3, .optimizer = {.type = OptimizerType::kLamb}});
  CHECK_THROWS_WITH(dry_run(options_of(lamb), {.data = 2}, {}),
                    Catch::Contains("an update ahead of the norm"));
}

}  // namespace
}  // namespace ds
