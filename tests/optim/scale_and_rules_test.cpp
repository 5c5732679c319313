// The loss scaler against a plain account of its rules over random traces, and the update rules
// against their formulas in fp64 over many steps.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "kernels/optimizer/lamb_update.h"
#include "optim/loss_scaler.h"
#include "optim/rules.h"
#include "tests/optim/rule_steps.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Floats = std::vector<float>;

// What a person would write down: how many clean updates since the last overflow, and how many
// overflows are still forgiven.
class Account {
 public:
  explicit Account(const DynamicScaleOptions& options)
      : options_(options), scale_(options.init_scale), forgiven_(options.hysteresis) {}

  // Nothing where training cannot go on.
  std::optional<double> note(GradientHealth health) {
    if (health == GradientHealth::kOverflowed) {
      if (forgiven_ > 1) {
        --forgiven_;
      } else if (scale_ == options_.min_scale && options_.at_minimum == AtMinimumScale::kThrow) {
        return std::nullopt;
      } else {
        scale_ = std::max(scale_ / 2, options_.min_scale);
      }
      clean_ = 0;
      return scale_;
    }
    ++clean_;
    if (options_.consecutive_hysteresis) forgiven_ = options_.hysteresis;
    // The update right after an overflow, or the very first one, does not count.
    if (clean_ > 1 && (clean_ - 1) % options_.window == 0) {
      scale_ *= 2;
      forgiven_ = options_.hysteresis;
    }
    return scale_;
  }

 private:
  DynamicScaleOptions options_;
  double scale_;
  int64_t forgiven_;
  int64_t clean_ = 0;
};

TEST_CASE("a dynamic scale follows its rules over any trace of overflows", "[optim]") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Rng rng(seed, "trace");
    const DynamicScaleOptions options{
        .init_scale = std::exp2(rng.bits(0) % 6),
        .window = 1 + static_cast<int64_t>(rng.bits(1) % 5),
        .min_scale = rng.bits(2) % 2 == 0 ? 1.0 : 0.25,
        .hysteresis = 1 + static_cast<int64_t>(rng.bits(3) % 3),
        .consecutive_hysteresis = rng.bits(4) % 2 == 0,
        .at_minimum = rng.bits(5) % 2 == 0 ? AtMinimumScale::kThrow : AtMinimumScale::kStay};
    LossScaler scaler = LossScaler::dynamic(options);
    Account account(options);
    for (uint64_t step = 0; step < 60; ++step) {
      const bool overflow = rng.bits(10 + step) % 4 == 0;
      const auto health = overflow ? GradientHealth::kOverflowed : GradientHealth::kFinite;
      const std::optional<double> expected = account.note(health);
      CAPTURE(seed, step, options.window, options.hysteresis);
      if (!expected) {
        const LossScaleState before = scaler.state();
        REQUIRE_THROWS_AS(scaler.update(health), ValidationError);
        REQUIRE(scaler.state() == before);
        break;
      }
      scaler.update(health);
      REQUIRE(scaler.scale() == *expected);
      REQUIRE(scaler.state().iteration == static_cast<int64_t>(step) + 1);
    }
  }
}

TEST_CASE("the transition of a loss scale can be made where there is no class", "[optim]") {
  constexpr DynamicScaleOptions kOptions{.init_scale = 4, .window = 2, .hysteresis = 1};
  constexpr LossScaleState kStart{.scale = 4};
  constexpr auto kHalved = after_update(kStart, kOptions, GradientHealth::kOverflowed);
  STATIC_REQUIRE(kHalved == LossScaleState{.scale = 2, .iteration = 1, .last_overflow = 0});
  constexpr LossScaleState kLeast{.scale = 1};
  STATIC_REQUIRE(is_exhausted(kLeast, kOptions));
  STATIC_REQUIRE(after_update(kLeast, kOptions, GradientHealth::kOverflowed) == kLeast);
  STATIC_REQUIRE(after_update(kLeast, kOptions, GradientHealth::kFinite).iteration == 1);
}

TEST_CASE("a scaler that is restored anywhere goes on as if it had never stopped", "[optim]") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Rng rng(seed, "restore");
    const DynamicScaleOptions options{.window = 3, .at_minimum = AtMinimumScale::kStay};
    LossScaler whole = LossScaler::dynamic(options);
    const auto health = [&](uint64_t step) {
      return rng.bits(step) % 5 == 0 ? GradientHealth::kOverflowed : GradientHealth::kFinite;
    };
    for (uint64_t step = 0; step < 10 + seed; ++step) whole.update(health(step));
    LossScaler restored = LossScaler::dynamic(options);
    restored.restore(whole.state());
    for (uint64_t step = 10 + seed; step < 60; ++step) {
      whole.update(health(step));
      restored.update(health(step));
      REQUIRE(restored.state() == whole.state());
    }
  }
}

TEST_CASE("the fp16 section's numbers make the scaler that they say", "[optim]") {
  const LossScaler fixed = LossScaler::from_fp16({.loss_scale = 128});
  CHECK_FALSE(fixed.is_dynamic());
  CHECK(fixed.scale() == 128);
  const LossScaler dynamic = LossScaler::from_fp16({.initial_scale_power = 5, .hysteresis = 3});
  CHECK(dynamic.is_dynamic());
  CHECK(dynamic.scale() == 32);
  CHECK(dynamic.state().hysteresis == 3);
  const std::vector<std::pair<Fp16ScaleOptions, const char*>> refused{
      {{.loss_scale = -1}, "loss scale is -1, expected more than 0"},
      {{.loss_scale = std::nan("")}, "loss scale is nan"},
      {{.loss_scale_window = 0}, "loss_scale_window is 0, expected 1 or more"},
      {{.hysteresis = 0}, "hysteresis is 0, expected 1 or more"},
      {{.initial_scale_power = -2000}, "loss scale starts at 0"},
      {{.min_loss_scale = -1}, "with minimum -1, expected a positive number"}};
  for (const auto& [options, message] : refused) {
    CAPTURE(message);
    CHECK_THROWS_AS(LossScaler::from_fp16(options), ConfigError);
    CHECK_THROWS_WITH(LossScaler::from_fp16(options), Catch::Contains(message));
  }
}

TEST_CASE("an overflow at the minimum says what overflowed and what may help", "[optim]") {
  LossScaler scaler = LossScaler::dynamic({.init_scale = 1, .hysteresis = 1});
  CHECK_THROWS_WITH(scaler.update(GradientHealth::kOverflowed, "h.0.attn.weight"),
                    Catch::Contains("gradient h.0.attn.weight overflowed at the minimum scale 1") &&
                        Catch::Contains("lower the learning rate"));
  CHECK_THROWS_WITH(scaler.update(GradientHealth::kOverflowed),
                    Catch::Contains("the gradients overflowed"));
  LossScaler fixed = LossScaler::fixed(4);
  CHECK_NOTHROW(fixed.update(GradientHealth::kOverflowed));
  CHECK(fixed.scale() == 4);
}

Floats normals(uint64_t seed, size_t count) {
  Floats values(count);
  Rng(seed, "rules").normals(0, values);
  return values;
}

TEST_CASE("adagrad follows its formula in fp64 over many steps", "[optim][device]") {
  const AdagradParams rule{.lr = 0.05, .eps = 1e-6, .weight_decay = 0.1};
  Floats weight = normals(1, 50), sum(50, 0.0F);
  std::vector<double> w(weight.begin(), weight.end()), s(50, 0.0);
  for (uint64_t step = 0; step < 30; ++step) {
    const Floats grad = normals(100 + step, 50);
    testing::update(rule, narrow<int64_t>(step) + 1, weight, grad, sum);
    for (size_t i = 0; i < w.size(); ++i) {
      const double g = static_cast<double>(grad[i]), decayed = g + 0.1 * w[i];
      s[i] += decayed * decayed;
      w[i] -= 0.05 * g / (std::sqrt(s[i]) + 1e-6);
    }
  }
  for (size_t i = 0; i < w.size(); ++i) {
    CHECK(static_cast<double>(weight[i]) == Approx(w[i]).epsilon(1e-4).margin(1e-5));
    CHECK(static_cast<double>(sum[i]) == Approx(s[i]).epsilon(1e-4));
  }
}

TEST_CASE("sgd follows its formula in fp64, in every combination of its options",
          "[optim][device]") {
  for (const double momentum : {0.0, 0.9}) {
    for (const double dampening : {0.0, 0.3}) {
      for (const bool nesterov : {false, true}) {
        if (nesterov && (momentum == 0 || dampening != 0)) continue;
        const SgdParams rule{.lr = 0.05,
                             .momentum = momentum,
                             .dampening = dampening,
                             .weight_decay = 0.2,
                             .nesterov = nesterov};
        Floats weight = normals(2, 20), buffer(momentum == 0 ? 0 : 20, 77.0F);
        std::vector<double> w(weight.begin(), weight.end()), b(20, 0.0);
        for (int64_t step = 1; step <= 25; ++step) {
          const Floats grad = normals(200 + static_cast<uint64_t>(step), 20);
          testing::update(rule, step, weight, grad, buffer);
          for (size_t i = 0; i < w.size(); ++i) {
            double g = static_cast<double>(grad[i]) + 0.2 * w[i];
            if (momentum != 0) {
              b[i] = step == 1 ? g : momentum * b[i] + (1 - dampening) * g;
              g = nesterov ? g + momentum * b[i] : b[i];
            }
            w[i] -= 0.05 * g;
          }
        }
        CAPTURE(momentum, dampening, nesterov);
        for (size_t i = 0; i < w.size(); ++i) {
          REQUIRE(static_cast<double>(weight[i]) == Approx(w[i]).epsilon(1e-4).margin(1e-5));
        }
      }
    }
  }
}

TEST_CASE("lion moves every weight by its rate, in the direction of the blend", "[optim][device]") {
  const LionParams rule{.lr = 0.01, .betas = {0.9, 0.99}, .weight_decay = 0.5};
  Floats weight = normals(3, 64), momentum = normals(4, 64);
  std::vector<double> m(momentum.begin(), momentum.end());
  for (uint64_t step = 0; step < 20; ++step) {
    const Floats grad = normals(300 + step, 64), before = weight;
    testing::update(rule, narrow<int64_t>(step) + 1, weight, grad, momentum);
    for (size_t i = 0; i < weight.size(); ++i) {
      const double g = static_cast<double>(grad[i]), c = 0.9 * m[i] + 0.1 * g;
      m[i] = 0.99 * m[i] + 0.01 * g;
      if (std::abs(c) < 1e-6) continue;  // rounding decides there
      const double expected =
          static_cast<double>(before[i]) * (1 - 0.01 * 0.5) - std::copysign(0.01, c);
      REQUIRE(static_cast<double>(weight[i]) == Approx(expected).epsilon(1e-5).margin(1e-6));
      REQUIRE(static_cast<double>(momentum[i]) == Approx(m[i]).epsilon(1e-4).margin(1e-6));
    }
  }
}

TEST_CASE("sgd's options are refused where they contradict each other", "[optim]") {
  const std::vector<std::pair<SgdParams, const char*>> refused{
      {{.lr = -1}, "lr, momentum and weight_decay are -1, 0 and 0, expected at least 0"},
      {{.momentum = -0.5}, "are 0.001, -0.5 and 0"},
      {{.weight_decay = -2}, "0 and -2"},
      {{.nesterov = true}, "nesterov needs a momentum above 0"},
      {{.momentum = 0.9, .dampening = 0.1, .nesterov = true}, "dampening 0, they are 0.9 and 0.1"}};
  for (const auto& [rule, message] : refused) {
    CAPTURE(message);
    CHECK_THROWS_AS(check(rule), ConfigError);
    CHECK_THROWS_WITH(check(rule), Catch::Contains(message));
    CHECK_THROWS_AS(make_optimizer(testing::config_of(rule)), ConfigError);
  }
}

TEST_CASE("a trust ratio is a quotient within its limits", "[optim]") {
  for (const double weight : {0.0, 1e-3, 1.0, 50.0}) {
    for (const double change : {0.0, 1e-3, 1.0, 50.0}) {
      const double ratio = kernels::trust_ratio(weight, change, 0.01, 10);
      CAPTURE(weight, change);
      if (weight == 0 || change == 0) {
        CHECK(ratio == 1);
      } else {
        CHECK(ratio == Approx(std::max(0.01, std::min(10.0, weight / change))));
      }
    }
  }
}

}  // namespace
}  // namespace ds
