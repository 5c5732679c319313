// Which rates short runs try, on losses over the rate that a formula says.
#include "launcher/report/rates/lr_trials.h"

#include <cmath>

#include "tests/support/catch.h"

namespace ds {
namespace {

// Every trial until there is none.
template <class Loss>
std::vector<LrTrial> trials_of(double first, const Loss& loss_of) {
  std::vector<LrTrial> tried;
  while (const std::optional<double> lr = next_trial_lr(tried, first)) {
    REQUIRE(tried.size() < kMostLrTrials);
    tried.push_back({.lr = *lr, .loss = loss_of(*lr)});
  }
  return tried;
}

// Lowest at `ground`; two octaves off cost 0.32.
auto valley_at(double ground) {
  return [ground](double lr) { return 3 + 0.08 * std::pow(std::log2(lr / ground), 2); };
}

double lowest_lr(const std::vector<LrTrial>& tried) {
  const LrTrial* const best = best_lr_trial(tried);
  REQUIRE(best != nullptr);
  return best->lr;
}

TEST_CASE("trials find the best rate to a quarter of an octave, wherever they begin",
          "[launcher]") {
  for (const double first : {1e-4, 7e-4, 1e-3, 2.3e-3, 1e-2}) {
    for (const double ground : {3e-4, 1.2e-3, 5e-3, 0.02}) {
      CAPTURE(first, ground);
      const double found = lowest_lr(trials_of(first, valley_at(ground)));
      CHECK(std::abs(std::log2(found / ground)) < 0.26);
    }
  }
}

TEST_CASE("near the best rate trials are seven", "[launcher]") {
  const std::vector<LrTrial> tried = trials_of(1e-3, valley_at(1e-3));
  CHECK(tried.size() == 7);
  CHECK(tried.front().lr == 1e-3);
}

TEST_CASE("a rate with which training is lost is worse than all others", "[launcher]") {
  const auto cliff = [](double lr) { return lr > 2e-3 ? NAN : 5 - 100 * lr; };
  const double found = lowest_lr(trials_of(1e-2, cliff));
  CHECK(found <= 2e-3);
  CHECK(found > 1.3e-3);
}

TEST_CASE("trials end where every rate loses the training, and none is the best", "[launcher]") {
  const std::vector<LrTrial> tried = trials_of(1e-3, [](double) { return NAN; });
  CHECK(tried.size() == kMostLrTrials);
  CHECK(tried.back().lr < 1e-9);
  CHECK(best_lr_trial(tried) == nullptr);
  CHECK(best_lr_trial({}) == nullptr);
}

TEST_CASE("trials end where the loss falls with the rate for ever", "[launcher]") {
  const std::vector<LrTrial> tried = trials_of(1e-3, [](double lr) { return 1 / (1 + lr); });
  CHECK(tried.size() == kMostLrTrials);
  CHECK(lowest_lr(tried) == tried.back().lr);
}

TEST_CASE("among rates that train alike the smallest is taken", "[launcher]") {
  const std::vector<LrTrial> tried{{.lr = 2e-3, .loss = 3}, {.lr = 1e-3, .loss = 3}};
  CHECK(lowest_lr(tried) == 1e-3);
}

TEST_CASE("of neighbours that train alike the middle is taken", "[launcher]") {
  const auto taken = [](std::vector<LrTrial> tried) { return best_lr(std::move(tried)).value(); };
  CHECK(taken({{2, 1.05}, {8, 1.009}, {4, 1.0}, {16, 1.2}}) == Approx(std::sqrt(32.0)));
  CHECK(taken({{2, 1.05}, {4, 1.0}, {8, 1.02}}) == Approx(4));
  CHECK(taken({{1, 1.005}, {2, 1.05}, {4, 1.0}}) == Approx(4));  // no neighbour
  CHECK(taken({{2, 1.002}, {4, 1.0}, {8, 1.008}}) == Approx(4));
  CHECK(taken({{2, 1.001}, {4, 1.0}, {8, NAN}}) == Approx(std::sqrt(8.0)));
  CHECK(taken({{4, -2.0}, {8, -1.99}}) == Approx(std::sqrt(32.0)));
  CHECK(!best_lr({{2, NAN}}));
  CHECK(!best_lr({}));
}

TEST_CASE("the loss of a trial is the mean of its last tenth", "[launcher]") {
  std::vector<PlotPoint> losses;
  for (int step = 1; step <= 20; ++step) losses.push_back({static_cast<double>(step), 21.0 - step});
  CHECK(trial_loss({{"loss", losses}}, 20, false) == 1.5);
  CHECK(std::isnan(trial_loss({{"loss", losses}}, 21, false)));  // the last step is missing
  CHECK(std::isnan(trial_loss({}, 20, false)));
  losses.back().y = NAN;
  CHECK(std::isnan(trial_loss({{"loss", losses}}, 20, false)));
}

TEST_CASE("the loss of a trial is that of held-out data after its last step", "[launcher]") {
  const std::vector<PlotPoint> losses{{19, 2.0}, {20, 1.0}};
  const MetricCurves curves{{"loss", losses}, {"validation_loss", {{10, 8.0}, {20, 7.0}}}};
  CHECK(trial_loss(curves, 20, true) == 7);
  CHECK(std::isnan(trial_loss(curves, 21, true)));
  CHECK(std::isnan(trial_loss({{"loss", losses}}, 20, true)));
}

}  // namespace
}  // namespace ds
