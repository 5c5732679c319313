// Training with ZenFlow: the bits of training without where it leaves nothing to wait for, those of
// one that never stopped whenever it resumes, as much memory as the plan says, and losses that stay
// near.
#include <cmath>
#include <cstring>

#include "optim/loss_scaler.h"
#include "tests/train/offload/offload_settings.h"

namespace ds {
namespace {

using namespace testing;

Setting with(Setting setting, const ZenflowOptions& zenflow) {
  setting.state = Tier::kHost;
  setting.zenflow = zenflow;
  return setting;
}

// Compares the slots that both have.
void check_same(const Outcome& got, const Outcome& expected) {
  CHECK(got.losses == expected.losses);
  CHECK(got.validation_loss == expected.validation_loss);
  CHECK(got.scales == expected.scales);
  for (const auto& [name, values] : expected.state) {
    INFO(name);
    CHECK(got.state.at(name) == values);
  }
}

std::string words(const Setting& setting) {
  const ZenflowOptions& z = *setting.zenflow;
  return fmt::format("{}; {} of the columns, every {}, the rest every {}, {} to warm up{}",
                     words_of(setting), z.topk_ratio, z.select_every, z.update_every.value_or(0),
                     z.warm_up, z.overlaps ? ", late" : "");
}

// Everything is important, or everything is warm-up, or an interval is one step.
TEST_CASE("ZenFlow that lets nothing wait trains to the bits of training without", "[train]") {
  const int ranks = GENERATE(1, 2);
  const int stage = GENERATE(1, 2, 3);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Setting plain{.ranks = ranks, .stage = stage, .dtype = dtype, .micro_steps = stage};
    plain.results_late = stage - 1 > 0 ? 1 : 0;
    plain.optimizer.param_groups = {{.match = {"*bias"}, .lr = 0.003, .weight_decay = 0.0}};
    MemoryFileSystem plain_disk;
    const Outcome expected = train(plain, plain_disk, 4);
    for (const bool overlaps : {false, true}) {
      for (const ZenflowOptions& zenflow :
           {ZenflowOptions{.topk_ratio = 1, .select_every = 2, .overlaps = overlaps},
            ZenflowOptions{.topk_ratio = 1, .overlaps = overlaps, .offloads_moments = true},
            ZenflowOptions{.warm_up = 4, .overlaps = overlaps}}) {
        const Setting setting = with(plain, zenflow);
        INFO(words(setting));
        MemoryFileSystem disk;
        check_same(train(setting, disk, 4), expected);
      }
    }
    const Setting each_step = with(plain, {.select_every = 3, .update_every = 1});
    INFO(words(each_step));
    MemoryFileSystem disk;
    check_same(train(each_step, disk, 4), expected);
  }
}

TEST_CASE("ZenFlow that lets something wait trains otherwise", "[train]") {
  const Setting plain{.ranks = 2, .stage = 2};
  MemoryFileSystem a, b, c;
  const Outcome without = train(plain, a, 6);
  const Outcome at_once = train(with(plain, {.update_every = 2}), b, 6);
  const Outcome late = train(with(plain, {.update_every = 2, .overlaps = true}), c, 6);
  CHECK(at_once.losses.front() == without.losses.front());
  CHECK(at_once.losses.back() != without.losses.back());
  CHECK(late.losses[1] == at_once.losses[1]);
  CHECK(late.losses.back() != at_once.losses.back());
}

TEST_CASE("ZenFlow goes on from any step as if it had not stopped", "[train]") {
  constexpr int64_t kSteps = 7;
  for (const ZenflowOptions& zenflow :
       {ZenflowOptions{.update_every = 3},
        ZenflowOptions{.topk_ratio = 0.3, .select_every = 4, .warm_up = 1, .overlaps = true},
        ZenflowOptions{.topk_ratio = 0.2,
        .select_every = 3,
        .update_every = 2,
        .overlaps = true,
        .offloads_moments = true}}) {
    Setting setting = with({.ranks = 2, .stage = 2, .dtype = DType::kBF16}, zenflow);
    INFO(words(setting));
    MemoryFileSystem whole_disk;
    const Outcome whole = train(setting, whole_disk, kSteps);
    for (int64_t stop = 1; stop < kSteps; ++stop) {
      CAPTURE(stop);
      MemoryFileSystem disk;
      const Outcome first = train(setting, disk, stop);
      // One rank goes no step on, and saves what it has found.
      Setting alone = setting;
      alone.ranks = 1;
      alone.stage = 3;
      CHECK(train(alone, disk, stop).state == first.state);
      const Outcome rest = train(setting, disk, kSteps);
      CHECK(rest.state == whole.state);
      CHECK(rest.validation_loss == whole.validation_loss);
      CHECK(rest.losses == std::vector(whole.losses.begin() + stop, whole.losses.end()));
    }
  }
}

TEST_CASE("a loss scale that overflows leaves ZenFlow's state as it was", "[train]") {
  for (const bool overlaps : {false, true}) {
    Setting setting = with({.ranks = 2, .stage = 3, .dtype = DType::kF16},
                           {.update_every = 2, .overlaps = overlaps});
    setting.clipping = 0;
    setting.loss_scale = loss_scale_rule({.initial_scale_power = 40});
    MemoryFileSystem disk;
    const Outcome none = train(setting, disk, 0);
    const Outcome got = train(setting, disk, 3);
    REQUIRE(got.skipped.back() == 3);
    CHECK(got.state == none.state);
  }
}

TEST_CASE("a step that is not finite leaves ZenFlow's state as it was", "[train]") {
  for (const bool overlaps : {false, true}) {
    const Setting setting =
        with({.ranks = 2, .stage = 2}, {.update_every = 2, .overlaps = overlaps});
    const EngineOptions options = options_of(setting);
    Outcome before, after;
    std::mutex mutex;
    test::run_ranks(2, [&](Communicator& comm) {
      const auto rank = plain_rank(comm);
      Engine engine(options, rank->resources(), std::nullopt);
      engine.initialize();
      CountingSource source(options, comm.rank(), 2);
      for (int step = 0; step < 3; ++step) train_step(engine, source);
      if (comm.rank() == 0) set_first_weight(engine, std::nanf(""));
      engine.store().state().restore_from_owned();
      collect(engine, before, mutex);
      if (overlaps) return;  // of the weights that are seen the first is as it was
      CHECK_THROWS_AS(train_step(engine, source), ValidationError);
      collect(engine, after, mutex);
    });
    if (overlaps) continue;
    for (const auto& [name, values] : before.state) {
      INFO(name);
      REQUIRE(std::memcmp(values.data(), after.state.at(name).data(),
                          values.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("the plan of ZenFlow is what it takes", "[train]") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const ZenflowOptions& zenflow :
         {ZenflowOptions{.select_every = 3, .update_every = 2},
          ZenflowOptions{.warm_up = 2, .overlaps = true},
          ZenflowOptions{.update_every = 2, .overlaps = true, .offloads_moments = true}}) {
      for (const int stage : {1, 3}) {
        const Setting setting =
            with({.ranks = 2, .stage = stage, .dtype = dtype, .micro_steps = 2}, zenflow);
        INFO(words(setting));
        MemoryFileSystem disk;
        check_plan(setting, train(setting, disk, 5));
      }
    }
  }
}

TEST_CASE("ZenFlow keeps a share of the state on the device, and of that offloads moments",
          "[train]") {
  const Setting plain{.ranks = 2, .stage = 2, .dtype = DType::kBF16};
  const auto device_bytes = [](const Setting& setting) {
    const RunPlan plan = dry_run(options_of(setting), {.data = 2}, {});
    return nth(nth(plan.of_rank(0).memory, Tier::kDevice).tag_bytes_at_peak, MemoryTag::kOptimizer);
  };
  const size_t all = device_bytes(plain);
  const size_t share = device_bytes(with(plain, {.topk_ratio = 0.1}));
  CHECK(share < all / 2);
  CHECK(share > device_bytes(with(plain, {.topk_ratio = 0.1, .offloads_moments = true})));
}

// Weights come from the host once an interval, and gradients go there as without.
TEST_CASE("a step between two updates of the rest brings no weights to the device", "[train]") {
  Setting setting = with({.ranks = 2, .stage = 2, .dtype = DType::kBF16}, {.update_every = 4});
  const auto links = [](const Setting& of) {
    const DeviceCeilings ceilings{.device = Device::cuda(0),
                                  .flops_per_s = 1e9,
                                  .bytes_per_s = 1e8,
                                  .link_bytes_per_s = {1e12, 1e12, 1e12, 1e12}};
    return dry_run(options_of(of), {.data = 2}, ceilings).of_rank(0).link_bytes;
  };
  const auto zenflow = links(setting);
  setting.zenflow.reset();
  const auto plain = links(setting);
  CHECK(nth(zenflow, Link::kToHost) == nth(plain, Link::kToHost));
  CHECK(nth(plain, Link::kToDevice) > 0);
  CHECK(nth(zenflow, Link::kToDevice) == 0);
}

// From nothing, where it is slower at first: most weights move once an interval, and later still if
// that is made late. With the defaults, but for epochs.
TEST_CASE("losses with ZenFlow stay near those without", "[train]") {
  Setting plain{.stage = 2};
  plain.optimizer.adam.lr = 0.003;
  constexpr int64_t kSteps = 160;
  MemoryFileSystem plain_disk;
  const Outcome without = train(plain, plain_disk, kSteps);
  REQUIRE(without.losses.back() < 0.6 * without.losses.front());
  for (const bool overlaps : {false, true}) {
    const Setting setting = with(plain, {.select_every = 20, .overlaps = overlaps});
    INFO(words(setting));
    MemoryFileSystem disk;
    const Outcome got = train(setting, disk, kSteps);
    UNSCOPED_INFO("from " << without.losses.front() << " to " << without.losses.back() << ", and "
                          << got.losses.back());
    const double fallen = without.losses.front() - without.losses.back();
    CHECK(got.losses.front() - got.losses.back() > (overlaps ? 0.5 : 0.85) * fallen);
  }
}

TEST_CASE("a checkpoint says whether it is ZenFlow's", "[train]") {
  const Setting plain{.ranks = 1, .stage = 2};
  const Setting zenflow = with(plain, {.update_every = 2});
  MemoryFileSystem disk, other;
  train(zenflow, disk, 1);
  CHECK_THROWS_WITH(train(plain, disk, 2),
                    Catch::Contains("was saved with the optimizer \"adam, zenflow\", this run has "
                                    "\"adam\""));
  train(plain, other, 1);
  CHECK_THROWS_WITH(train(with(plain, {.update_every = 2, .overlaps = true}), other, 2),
                    Catch::Contains("this run has \"adam, zenflow with overlap_step\""));
}

TEST_CASE("ZenFlow is of state on the host, element by element, with its weights on the device",
          "[train]") {
  const ZenflowOptions zenflow{.update_every = 2};
  const auto plan = [](const Setting& setting) { dry_run(options_of(setting), {.data = 2}, {}); };
  Setting nvme = with({.ranks = 2, .stage = 3}, zenflow);
  nvme.state = Tier::kNvme;
  CHECK_THROWS_WITH(plan(nvme), Catch::Contains("ZenFlow is of state that is all on the host"));
  CHECK_THROWS_WITH(
      plan(with({.ranks = 2, .stage = 3, .optimizer = {.type = OptimizerType::kMuon}}, zenflow)),
      Catch::Contains("ZenFlow is of state that is all on the host"));
  Setting elsewhere = with({.ranks = 2, .stage = 3}, zenflow);
  elsewhere.params = Tier::kHost;
  CHECK_THROWS_AS(plan(elsewhere), Unsupported);
}

}  // namespace
}  // namespace ds
