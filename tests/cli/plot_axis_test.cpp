#include "cli/plot_axis.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "cli/line_plot.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::vector<std::string> labels(double low, double high, PlotTicks kind) {
  std::vector<std::string> out;
  for (const PlotTick& tick : PlotAxis(low, high, kind).ticks()) out.push_back(tick.label);
  return out;
}

// What holds of every axis: few marks, in order, inside, told apart by their labels; and its ends
// inside, too.
void check_axis(double low, double high, PlotTicks kind) {
  CAPTURE(low, high, static_cast<int>(kind));
  const PlotAxis axis(low, high, kind);
  const std::vector<PlotTick> ticks = axis.ticks();
  REQUIRE(!ticks.empty());
  REQUIRE(ticks.size() <= PlotAxis::kMostTicks);
  std::set<std::string> seen;
  double before = -1e-9;
  for (const PlotTick& tick : ticks) {
    REQUIRE(seen.insert(tick.label).second);
    REQUIRE(tick.label.size() <= 22);
    REQUIRE(tick.share > before);
    REQUIRE(tick.share <= 1 + 1e-9);
    // A label says where its mark is, to the digits that it has.
    REQUIRE(std::abs(axis.share(std::stold(tick.label)) - tick.share) < 0.01);
    before = tick.share;
  }
  REQUIRE(axis.share(low) >= 0);
  REQUIRE(axis.share(high) <= 1);
  REQUIRE(axis.share(low) <= axis.share(high));
}

double any_double(std::mt19937_64& draw) {
  for (;;) {
    const auto value = std::bit_cast<double>(draw());
    if (std::isfinite(value)) return value;
  }
}

}  // namespace

TEST_CASE("round numbers are marked, with as many digits as tell them apart", "[cli]") {
  using Labels = std::vector<std::string>;
  CHECK(labels(0, 1, PlotTicks::kReal) == Labels{"0", "0.2", "0.4", "0.6", "0.8", "1"});
  CHECK(labels(1, 12, PlotTicks::kWhole) == Labels{"2", "4", "6", "8", "10", "12"});
  CHECK(labels(1, 2, PlotTicks::kWhole) == Labels{"1", "2"});
  CHECK(labels(5.5, 5.501, PlotTicks::kReal) ==
        Labels{"5.5", "5.5002", "5.5004", "5.5006", "5.5008", "5.501"});
  CHECK(labels(1e6, 1e6 + 60, PlotTicks::kWhole) ==
        Labels{"1000000", "1000010", "1000020", "1000030", "1000040", "1000050", "1000060"});
  CHECK(labels(-3, 3, PlotTicks::kReal) == Labels{"-3", "-2", "-1", "0", "1", "2", "3"});
}

TEST_CASE("a flat line lies in the middle", "[cli]") {
  for (const double value : {5.5, -5.5, 1e-5, 1e300, 5e-324, 0.0}) {
    CAPTURE(value);
    CHECK(PlotAxis(value, value, PlotTicks::kReal).share(value) == Approx(0.5));
  }
  const double next = std::nextafter(5.5, 6);
  CHECK(PlotAxis(5.5, next, PlotTicks::kReal).share(next) == Approx(0.5));
}

TEST_CASE("every finite range has a few marks whose labels differ", "[cli]") {
  constexpr double kMost = std::numeric_limits<double>::max();
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  for (const PlotTicks kind : {PlotTicks::kReal, PlotTicks::kWhole}) {
    for (const double value : {0.0, -0.0, 1.0, -1.0, 0.1, 5.5, 1e15, 9007199254740992.0, 1e16,
                               1e308, kMost, -kMost, kLeast, -kLeast, 2.2250738585072014e-308}) {
      check_axis(value, value, kind);
      if (value < kMost) check_axis(value, std::nextafter(value, kMost), kind);
      if (value >= 0) check_axis(-value, value, kind);
      check_axis(value, kMost, kind);
      check_axis(-kMost, value, kind);
    }
  }
}

TEST_CASE("so has every range between doubles that are drawn", "[cli]") {
  std::mt19937_64 draw(7);
  for (int i = 0; i < 20'000; ++i) {
    const PlotTicks kind = i % 2 == 0 ? PlotTicks::kReal : PlotTicks::kWhole;
    const double one = any_double(draw);
    const double other = any_double(draw);
    check_axis(std::min(one, other), std::max(one, other), kind);
    // Some bits apart.
    const double near =
        std::bit_cast<double>(std::bit_cast<uint64_t>(one) ^ (draw() >> (12 + draw() % 52)));
    if (std::isfinite(near)) check_axis(std::min(one, near), std::max(one, near), kind);
  }
}

TEST_CASE("a picture has no number that is none, and nobody's markup", "[cli]") {
  const double inf = std::numeric_limits<double>::infinity();
  const double most = std::numeric_limits<double>::max();
  const double nan = std::nan("");
  const std::vector<std::vector<PlotPoint>> curves{{{1e308, 1}, {1e308, 2}},
                                                   {{1, most}, {2, -most}},
                                                   {{-most, 5.5}, {most, 5.500000000000001}},
                                                   {{nan, 1}, {inf, 2}, {3, inf}, {4, nan}},
                                                   {{0, 5e-324}, {5e-324, 0}}};
  for (const std::vector<PlotPoint>& points : curves) {
    for (const PlotTicks kind : {PlotTicks::kReal, PlotTicks::kWhole}) {
      const std::string svg =
          line_plot("a<b>'\"&\x1b", "</text>", {{"<i>", kBlue, points}, {"'", kRed, points}}, kind);
      CHECK_THAT(svg, !Catch::Contains("nan") && !Catch::Contains("inf") &&
                          !Catch::Contains("<i>") && !Catch::Contains("\x1b") &&
                          Catch::Contains("a&lt;b&gt;&#39;&quot;&amp;\\u001b") &&
                          Catch::Contains("&lt;/text&gt;"));
      CHECK(svg.size() < 6000);
    }
  }
}

}  // namespace ds
