// The loss scale over traces of overflows: x = overflow, . = clean.
#include "optim/loss_scaler.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::vector<double> run(LossScaler& scaler, std::string_view trace) {
  std::vector<double> scales;
  for (char step : trace) {
    scaler.update(step == 'x' ? GradientHealth::kOverflowed : GradientHealth::kFinite);
    scales.push_back(scaler.scale());
  }
  return scales;
}

TEST_CASE("a clean run doubles the scale once per window", "[optim]") {
  auto scaler = LossScaler::dynamic({.init_scale = 256, .window = 2});
  CHECK(run(scaler, "..........") ==
        std::vector<double>{256, 256, 512, 512, 1024, 1024, 2048, 2048, 4096, 4096});
}

TEST_CASE("hysteresis absorbs overflows until a growth refills it", "[optim]") {
  auto scaler = LossScaler::dynamic({.init_scale = 256, .window = 2, .hysteresis = 2});
  CHECK(run(scaler, "xx..x.......") ==
        std::vector<double>{256, 128, 128, 128, 64, 64, 64, 128, 128, 256, 256, 512});
  auto single = LossScaler::dynamic({.init_scale = 256, .window = 2, .hysteresis = 2});
  CHECK(run(single, "x.x.x.x.") == std::vector<double>{256, 256, 128, 128, 64, 64, 32, 32});
}

TEST_CASE("consecutive hysteresis forgives every overflow that stands alone", "[optim]") {
  auto scaler = LossScaler::dynamic(
      {.init_scale = 256, .window = 2, .hysteresis = 2, .consecutive_hysteresis = true});
  CHECK(run(scaler, "x.x.x.x.") == std::vector<double>(8, 256));
}

TEST_CASE("an overflow at the minimum scale ends training and names the tensor", "[optim]") {
  auto scaler = LossScaler::dynamic({.init_scale = 4, .hysteresis = 2});
  CHECK(run(scaler, "xxx") == std::vector<double>{4, 2, 1});
  const LossScaleState before = scaler.state();
  CHECK_THROWS_WITH(scaler.update(GradientHealth::kOverflowed, "h.0.attn"),
                    Catch::Contains("gradient h.0.attn"));
  CHECK_THROWS_AS(scaler.update(GradientHealth::kOverflowed), ValidationError);
  CHECK(scaler.state() == before);
}

TEST_CASE("the plain profiles stay at their floor", "[optim]") {
  DynamicScaleOptions options = plain_scale_defaults(PlainScaleProfile::kUnfused);
  options.init_scale = 1;
  auto scaler = LossScaler::dynamic(options);
  CHECK(run(scaler, "xxxx") == std::vector<double>{0.5, 0.25, 0.25, 0.25});
  CHECK(LossScaler::dynamic(plain_scale_defaults(PlainScaleProfile::kFused)).scale() ==
        4294967296.0);
}

TEST_CASE("a static scale never moves", "[optim]") {
  auto scaler = LossScaler::from_fp16({.loss_scale = 128});
  CHECK(run(scaler, "x..x") == std::vector<double>(4, 128));
  CHECK_FALSE(scaler.is_dynamic());
  CHECK(LossScaler::from_fp16({}).scale() == 65536);
}

TEST_CASE("a restored scale goes on where it stopped", "[optim]") {
  auto first = LossScaler::dynamic({.init_scale = 64, .window = 3});
  run(first, "x..x.");
  auto second = LossScaler::dynamic({.init_scale = 64, .window = 3});
  second.restore(first.state());
  CHECK(run(first, "....x") == run(second, "....x"));
}

TEST_CASE("impossible loss scale options are refused", "[optim]") {
  CHECK_THROWS_AS(LossScaler::dynamic({.window = 0}), ConfigError);
  CHECK_THROWS_AS(LossScaler::dynamic({.hysteresis = 0}), ConfigError);
  CHECK_THROWS_AS(LossScaler::dynamic({.init_scale = -1}), ConfigError);
  CHECK_THROWS_AS(LossScaler::fixed(-2), ConfigError);
  // Steps would overflow for ever, or updates be infinite.
  for (const double scale : {0x1p200, 0x1p127, 1e-39, 1e-45, 0x1p-127, std::nan(""),
                             std::numeric_limits<double>::infinity()}) {
    CAPTURE(scale);
    CHECK_THROWS_AS(LossScaler::fixed(scale), ConfigError);
    CHECK_THROWS_AS(LossScaler::dynamic({.min_scale = scale}), ConfigError);
    CHECK_FALSE(is_usable_scale(scale));
  }
  CHECK_THROWS_AS(LossScaler::dynamic({.min_scale = 0}), ConfigError);
  CHECK_THROWS_AS(LossScaler::from_fp16({.initial_scale_power = 1100}), ConfigError);
  CHECK(LossScaler::from_fp16({.initial_scale_power = 200}).scale() == 0x1p200);  // comes down
  for (const double scale : {0x1p126, 0x1p-126}) CHECK(LossScaler::fixed(scale).scale() == scale);
}

}  // namespace
}  // namespace ds
