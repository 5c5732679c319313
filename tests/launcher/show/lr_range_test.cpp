#include "launcher/show/lr_range.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

// Rates 0.001 to 0.1 in equal steps, and at the next step the loss that `of` says of each; "null"
// where it is not finite.
template <class Loss>
MetricCurves run_of(int steps, const Loss& of) {
  std::string lines;
  double loss = of(0.001);
  for (int step = 1; step <= steps; ++step) {
    const double lr = 0.001 + 0.099 * (step - 1) / (steps - 1);
    lines += fmt::format("{{\"step\": {}, \"loss\": {}, \"lr\": {}}}\n", step,
                         std::isfinite(loss) ? fmt::format("{}", loss) : "null", lr);
    loss = of(lr);
  }
  return metric_curves(lines);
}

// Lowest at 0.04.
double valley(double lr) { return 1 + std::pow(lr - 0.04, 2) * 1000; }

TEST_CASE("of a valley the rate at its ground is found, a little late", "[launcher]") {
  const LrRange range = lr_range_of(run_of(500, valley));
  CHECK(range.points.size() == 499);
  CHECK(range.lowest_lr > 0.04);
  CHECK(range.lowest_lr < 0.055);
  CHECK(range.lowest_loss == Approx(1).margin(0.2));
  CHECK_FALSE(range.still_falling);
  // x d/dx (x - 0.04)^2 is least at 0.02, and what is smoothed is late.
  CHECK(range.steepest_lr > 0.018);
  CHECK(range.steepest_lr < 0.035);
  REQUIRE(range.diverged_lr);  // back above the first loss
  CHECK(*range.diverged_lr > 0.079);
  CHECK(range.cycle_max_lr() == range.lowest_lr / 2);
  CHECK(range.cycle_min_lr() == range.cycle_max_lr() / 4);
  CHECK(range.fixed_lr() == std::min(range.steepest_lr, range.cycle_max_lr()));
}

TEST_CASE("a loss that is lost ends the range", "[launcher]") {
  const LrRange range =
      lr_range_of(run_of(100, [](double lr) { return lr < 0.03 ? 1 - lr : NAN; }));
  REQUIRE(range.diverged_lr);
  CHECK(*range.diverged_lr == Approx(0.03).margin(0.001));
  CHECK(range.lowest_lr == Approx(0.029).margin(0.001));
  CHECK_THAT(lr_range_text(range), Catch::Contains("diverges        at 0.03"));
  CHECK_THAT(lr_range_json(range, "/run", "/plot"), Catch::Contains("\"loss\": null"));
}

TEST_CASE("a range that is too short says so", "[launcher]") {
  const LrRange range = lr_range_of(run_of(50, [](double lr) { return 1 - lr; }));
  CHECK(range.still_falling);
  CHECK_FALSE(range.diverged_lr);
  CHECK(range.lowest_lr == range.points.back().lr);
  CHECK_THAT(lr_range_text(range), Catch::Contains("still falls at the end"));
}

TEST_CASE("rates in stairs have no fall within a stair", "[launcher]") {
  std::string lines;
  for (int step = 1; step <= 40; ++step) {
    lines += fmt::format("{{\"step\": {}, \"loss\": {}, \"lr\": {}}}\n", step, 5 - 0.1 * step,
                         0.001 * (1 + (step - 1) / 10));
  }
  const LrRange range = lr_range_of(metric_curves(lines));
  CHECK(range.steepest_lr >= 0.001);
  CHECK(range.steepest_lr <= 0.004);
}

TEST_CASE("too few steps and a loss that is lost at once are errors", "[launcher]") {
  CHECK_THROWS_AS(lr_range_of({}), DataError);
  CHECK_THROWS_AS(lr_range_of(run_of(4, valley)), DataError);
  try {
    lr_range_of(run_of(20, [](double) { return NAN; }));
    FAIL("no error");
  } catch (const DataError& error) {
    CHECK_THAT(error.what(), Catch::Contains("--min-lr"));
  }
}

TEST_CASE("the plots show the range", "[launcher]") {
  const LrRange range = lr_range_of(run_of(100, valley));
  const std::string svg = lr_range_plot(range);
  CHECK_THAT(svg, Catch::Contains("learning rate") && Catch::Contains(">0.06<"));
  const std::string text = lr_range_text(range);
  CHECK_THAT(text, Catch::Contains("0.001") && Catch::Contains("OneCycle") && Catch::Contains("*"));
}

TEST_CASE("lines of metrics that are not whole are none", "[launcher]") {
  const MetricCurves curves =
      metric_curves("{\"step\": 1, \"loss\": 2.5}\n{\"loss\": 1}\n{\"step\": 2, \"lo");
  REQUIRE(curves.size() == 1);
  CHECK(curves.at("loss").size() == 1);
}

}  // namespace
}  // namespace ds
