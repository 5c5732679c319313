// Training weights of 16 bits without fp32 masters, and with gradients of their type: the same bits
// at every stage, wherever state lies, and after a stop; as much memory as the plan says; and from
// fp32 masters to none and back by one rounding.
#include "optim/loss_scaler.h"
#include "tests/train/offload/offload_settings.h"

namespace ds {
namespace {

using namespace testing;

Setting without_masters(DType dtype, int ranks, int stage, int micro_steps = 1) {
  return {.ranks = ranks,
          .stage = stage,
          .dtype = dtype,
          .micro_steps = micro_steps,
          .masters = Masters::kWeights};
}
Setting at_random(Setting setting) {
  setting.rounding_seed = 11;
  return setting;
}

Outcome trained(const Setting& setting, int64_t steps) {
  MemoryFileSystem disk;
  return train(setting, disk, steps);
}

bool is_of(DType dtype, float value) {
  return dtype == DType::kBF16 ? static_cast<float>(BF16(value)) == value
                               : static_cast<float>(F16(value)) == value;
}

TEST_CASE("stages agree to the bit where weights are their own masters", "[train]") {
  for (const int micro_steps : {1, 3}) {
    for (Setting setting : {without_masters(DType::kBF16, 2, 0, micro_steps),
                            at_random(without_masters(DType::kBF16, 2, 0, micro_steps)),
                            without_masters(DType::kF16, 2, 0, micro_steps)}) {
      const Outcome expected = trained(setting, 3);
      for (const auto& [name, values] : expected.state) {
        if (!name.ends_with("/weight")) continue;
        for (const float value : values) REQUIRE(is_of(setting.dtype, value));
      }
      for (int stage = 1; stage <= 3; ++stage) {
        setting.stage = stage;
        CAPTURE(name_of(setting.dtype), micro_steps, stage);
        const Outcome got = trained(setting, 3);
        CHECK(got.losses == expected.losses);
        CHECK(got.state == expected.state);
      }
    }
  }
}

TEST_CASE("weights that are their own masters are updated anywhere to the same bits, as planned",
          "[train]") {
  for (const Setting& plain :
       {without_masters(DType::kF16, 1, 3, 2), at_random(without_masters(DType::kBF16, 2, 3))}) {
    const Outcome expected = trained(plain, 2);
    check_plan(plain, expected);
    std::vector<Setting> ways = offloads_of(plain);
    std::ranges::copy(offloads_of_both(plain), std::back_inserter(ways));
    Setting on_device = plain;
    on_device.params = Tier::kHost;
    ways.push_back(on_device);
    for (const Setting& setting : ways) {
      INFO(words_of(setting));
      const Outcome got = trained(setting, 2);
      CHECK(got.losses == expected.losses);
      CHECK(got.state == expected.state);
      check_plan(setting, got);
    }
  }
}

TEST_CASE("an update ahead of the norm rounds as one after it", "[train]") {
  Setting setting = at_random(without_masters(DType::kBF16, 2, 2));
  setting.clipping = 0.05;  // so that updates are undone
  const Outcome expected = trained(setting, 4);
  setting.state = Tier::kHost;
  setting.update_ahead = true;
  CHECK(trained(setting, 4).state == expected.state);
}

TEST_CASE("a run without masters goes on to the bits of one that did not stop", "[train]") {
  const Setting at_one = at_random(without_masters(DType::kBF16, 2, 1));
  const Outcome whole = trained(at_one, 4);
  for (Setting later : {at_one, at_random(without_masters(DType::kBF16, 2, 3))}) {
    for (const Tier state : {Tier::kDevice, Tier::kHost}) {
      later.state = state;
      MemoryFileSystem disk;
      train(at_one, disk, 2);
      CHECK(train(later, disk, 4).state == whole.state);
    }
  }
}

TEST_CASE("a checkpoint goes from fp32 masters to none by one rounding, and back by none",
          "[train]") {
  const Setting with{.ranks = 2, .stage = 2, .dtype = DType::kBF16};
  const Setting without = without_masters(DType::kBF16, 2, 2);
  MemoryFileSystem disk;
  const Outcome first = train(with, disk, 3);
  const Outcome second = train(without, disk, 3);  // no step: what was loaded
  for (const auto& [name, values] : first.state) {
    CAPTURE(name);
    std::vector<float> expected = values;
    if (name.ends_with("/weight")) {
      for (float& value : expected) value = static_cast<float>(BF16(value));
    }
    CHECK(second.state.at(name) == expected);
  }
  const Outcome third = train(without, disk, 5);
  CHECK(train(with, disk, 5).state == third.state);
}

TEST_CASE("weights without masters take less memory, by two and four bytes each", "[train]") {
  const auto state_bytes = [](const Setting& setting) {
    const RunPlan plan = dry_run(options_of(setting), {.data = setting.ranks}, {});
    const MemoryUsage& usage =
        nth(plan.of_rank(0).memory, setting.state == Tier::kHost ? Tier::kHost : Tier::kDevice);
    return usage.tag_bytes_at_peak.at(static_cast<size_t>(MemoryTag::kOptimizer));
  };
  const Setting with{.ranks = 2, .stage = 2, .dtype = DType::kBF16};
  const Setting without = without_masters(DType::kBF16, 2, 2);
  // Masters and two moments of 4 bytes each, on the device moments alone.
  CHECK(static_cast<double>(state_bytes(without)) / static_cast<double>(state_bytes(with)) ==
        Approx(2.0 / 3).epsilon(0.01));
  const auto on_host = [&](Setting setting) {
    setting.state = Tier::kHost;
    return state_bytes(setting);
  };
  CHECK(static_cast<double>(on_host(without)) / static_cast<double>(on_host(with)) ==
        Approx(10.0 / 12).epsilon(0.01));
}

TEST_CASE("amp O3 trains in fp16 alone, by a scale of 1", "[train]") {
  Setting o3 = without_masters(DType::kF16, 2, 0);
  o3.loss_scale = loss_scale_rule({.loss_scale = 1});
  o3.optimizer = {.type = OptimizerType::kSgd, .sgd = {.lr = 0.1}};
  const Outcome plain = trained(o3, 8);
  const Outcome fp32 = trained({.ranks = 2, .optimizer = o3.optimizer}, 8);
  for (size_t i = 0; i < fp32.losses.size(); ++i) {
    CHECK(plain.losses[i] == Approx(fp32.losses[i]).epsilon(0.005));
  }
  CHECK(plain.skipped.back() == 0);
  CHECK(plain.scales == std::vector<double>(8, 1.0));
}

// Each step is about 1e-5 of a weight, of which nearest makes none.
TEST_CASE("small steps are kept on average where weights are rounded at random", "[train]") {
  Setting nearest = without_masters(DType::kBF16, 2, 1);
  nearest.optimizer = {.type = OptimizerType::kSgd, .sgd = {.lr = 0.002}};
  Setting fp32{.ranks = 2, .stage = 1, .optimizer = nearest.optimizer};
  const auto fall = [](const Setting& setting) {
    const Outcome outcome = trained(setting, 30);
    return outcome.losses.front() - outcome.losses.back();
  };
  const double wanted = fall(fp32);
  CHECK(std::abs(fall(at_random(nearest)) - wanted) < std::abs(fall(nearest) - wanted));
}

}  // namespace
}  // namespace ds
