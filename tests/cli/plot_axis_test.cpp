#include "cli/text/plot_axis.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "cli/text/line_plot.h"
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

TEST_CASE("numbers are written in full as long as that is short", "[cli]") {
  using Labels = std::vector<std::string>;
  CHECK(labels(1400, 127000, PlotTicks::kReal) == Labels{"50000", "100000"});
  CHECK(labels(0, 1e-5, PlotTicks::kReal) == Labels{"0", "2e-6", "4e-6", "6e-6", "8e-6", "1e-5"});
}

TEST_CASE("numbers above 0 that span decades get a logarithmic axis", "[cli]") {
  using Labels = std::vector<std::string>;
  CHECK(ticks_for(0.05, 5.5) == PlotTicks::kLog);
  CHECK(ticks_for(0.1, 5.5) == PlotTicks::kReal);
  CHECK(ticks_for(0, 5.5) == PlotTicks::kReal);
  CHECK(ticks_for(-1, 5.5) == PlotTicks::kReal);
  CHECK(labels(0.05, 5.5, PlotTicks::kLog) == Labels{"0.05", "0.1", "0.2", "0.5", "1", "2", "5"});
  CHECK(labels(1e-8, 0.2, PlotTicks::kLog) ==
        Labels{"1e-8", "1e-7", "1e-6", "1e-5", "0.0001", "0.001", "0.01", "0.1"});
  const PlotAxis axis(0.01, 100, PlotTicks::kLog);
  CHECK(axis.share(1) == Approx(0.5));
  CHECK(axis.share(10) == Approx(0.75));
  // Too near for decades.
  CHECK(labels(1, 2, PlotTicks::kLog) == labels(1, 2, PlotTicks::kReal));
}

TEST_CASE("a picture marks what happened, inside and with room between words", "[cli]") {
  const std::vector<PlotPoint> points{{0, 1}, {100, 2}};
  const std::string svg = line_plot({.title = "t",
                                     .x_name = "step",
                                     .curves = {{"a", kBlue, points}},
                                     .marks = {{10, "restart"},
                                               {10, "restart"},
                                               {12, "restart"},
                                               {50, "<b>"},
                                               {101, "restart"},
                                               {std::nan(""), "restart"}}});
  size_t lines = 0, words = 0;
  for (size_t at = svg.find("class='mark'"); at != std::string::npos;
       at = svg.find("class='mark'", at + 1))
    ++lines;
  for (size_t at = svg.find(">restart<"); at != std::string::npos;
       at = svg.find(">restart<", at + 1))
    ++words;
  CHECK(lines == 3);
  CHECK(words == 1);
  CHECK_THAT(svg, Catch::Contains(">&lt;b&gt;<"));
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
  for (const PlotTicks kind : {PlotTicks::kReal, PlotTicks::kWhole, PlotTicks::kLog}) {
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
  for (int i = 0; i < 4'000; ++i) {
    const PlotTicks kind = i % 3 == 0   ? PlotTicks::kReal
                           : i % 3 == 1 ? PlotTicks::kWhole
                                        : PlotTicks::kLog;
    const bool is_log = kind == PlotTicks::kLog;
    const double one = is_log ? std::abs(any_double(draw)) : any_double(draw);
    const double other = is_log ? std::abs(any_double(draw)) : any_double(draw);
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
      const std::string svg = line_plot({.title = "a<b>'\"&\x1b",
                                         .x_name = "</text>",
                                         .curves = {{"<i>", kBlue, points}, {"'", kRed, points}},
                                         .x_ticks = kind});
      CHECK_THAT(svg, !Catch::Contains("nan") && !Catch::Contains("inf") &&
                          !Catch::Contains("<i>") && !Catch::Contains("\x1b") &&
                          Catch::Contains("a&lt;b&gt;&#39;&quot;&amp;\\u001b") &&
                          Catch::Contains("&lt;/text&gt;"));
      CHECK(svg.size() < 6000);
    }
  }
}

}  // namespace ds
