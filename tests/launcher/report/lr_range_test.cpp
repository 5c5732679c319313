#include "launcher/report/rates/lr_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/status/error.h"
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

TEST_CASE("the rate with the lowest mean loss is marked and proposed", "[launcher]") {
  LrRange range = lr_range_of(run_of(50, valley));
  range.trials = {{.lr = 0.003, .loss = 2},
                  {.lr = 0.004, .loss = 1.5},
                  {.lr = 0.005, .loss = 1.51},
                  {.lr = 0.004, .seed = 1, .loss = 1.6},
                  {.lr = 0.005, .seed = 1, .loss = 1.45}};
  const std::string text = lr_range_text(range);
  CHECK_THAT(text, Catch::Contains("0.003 2\n") &&
                       Catch::Contains("0.004 1.55, mean of 2 seeds\n") &&
                       Catch::Contains("0.005 1.48, mean of 2 seeds, the best\n"));
  CHECK(range.fixed_lr() == 0.005);
  range.trials.resize(3);
  CHECK_THAT(lr_range_text(range), Catch::Contains("0.004 1.5, the best\n"));
  CHECK(range.fixed_lr() == 0.004);
}

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
  REQUIRE(range.diverged_lr);  // half of the fall is lost at 0.068
  CHECK(*range.diverged_lr > 0.066);
  CHECK(*range.diverged_lr < 0.071);
  CHECK(range.cycle_max_lr() == range.lowest_lr / 2);
  CHECK(range.cycle_min_lr() == range.cycle_max_lr() / 4);
  CHECK(range.fixed_lr() ==
        std::min({range.steepest_lr, range.cycle_max_lr(), *range.diverged_lr / 4}));
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

// The loss of a model that falls to 2 at a rate of 0.047, jumps, and comes back to a lower loss.
double jump_and_return(double lr) {
  if (lr < 0.047) return 5.5 - 3.5 * std::min(1.0, lr / 0.03);
  return lr < 0.055 ? 8.1 : 1.8;
}

TEST_CASE("a jump of the loss ends the range, whatever comes after it", "[launcher]") {
  const LrRange range = lr_range_of(run_of(100, jump_and_return));
  REQUIRE(range.diverged_lr);
  CHECK(*range.diverged_lr == Approx(0.047).margin(0.0011));
  CHECK(range.lowest_lr < 0.047);
  CHECK(range.fixed_lr() <= *range.diverged_lr / 4);
  CHECK(range.cycle_max_lr() < *range.diverged_lr / 2);
}

TEST_CASE("a loss that has fallen and rises to half of its fall again has diverged", "[launcher]") {
  const LrRange range = lr_range_of(
      run_of(100, [](double lr) { return lr < 0.05 ? 5 - 40 * lr : 3 + 40 * (lr - 0.05); }));
  REQUIRE(range.diverged_lr);
  CHECK(*range.diverged_lr > 0.05);
  CHECK(*range.diverged_lr < 0.09);
}

TEST_CASE("noise and a single bad batch are no divergence", "[launcher]") {
  int step = 0;
  const auto noisy = [&step](double lr) {
    ++step;
    const double bad = step == 30 ? 1.2 : 0;
    return 5 - 20 * lr + 0.3 * std::sin(step * 2.4) + bad;
  };
  const LrRange range = lr_range_of(run_of(100, noisy));
  CHECK_FALSE(range.diverged_lr);
  CHECK(range.lowest_lr > 0.08);
}

TEST_CASE("a flat loss has no divergence, and a rate within the range", "[launcher]") {
  int step = 0;
  const LrRange even = lr_range_of(run_of(60, [](double) { return 4.0; }));
  CHECK_FALSE(even.diverged_lr);
  CHECK(even.fixed_lr() > 0);
  CHECK(even.fixed_lr() <= 0.1);
  const LrRange noisy =
      lr_range_of(run_of(60, [&step](double) { return 4.0 + 0.2 * std::sin(2.4 * ++step); }));
  CHECK_FALSE(noisy.diverged_lr);
}

TEST_CASE("what follows a loss that is no number does not count", "[launcher]") {
  int step = 0;
  const LrRange range = lr_range_of(run_of(60, [&step](double lr) {
    ++step;
    return step == 30 ? NAN : 5 - 30 * lr;
  }));
  REQUIRE(range.diverged_lr);
  CHECK(range.lowest_lr < *range.diverged_lr);
  CHECK(range.fixed_lr() <= *range.diverged_lr / 4);
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
    const int stair = 1 + (step - 1) / 10;
    lines += fmt::format("{{\"step\": {}, \"loss\": {}, \"lr\": {}}}\n", step, 5 - 0.1 * step,
                         0.001 * stair);
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
  CHECK_THAT(svg, Catch::Contains("learning rate") && Catch::Contains(">0.05<"));
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
