// Which rates short runs try, on losses over the rate that a formula says.
#include "launcher/report/rates/lr_trials.h"

#include <cmath>
#include <numbers>
#include <type_traits>

#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr size_t kMostTrials = kMostLrTrials + kMostClosestLrs * (kLrTrialSeeds - 1);

// Every trial until there is none.
template <class Loss>
std::vector<LrTrial> trials_of(double first, const Loss& loss_of) {
  std::vector<LrTrial> tried;
  while (std::optional<LrTrial> trial = next_lr_trial(tried, first)) {
    REQUIRE(tried.size() < kMostTrials);
    if constexpr (std::is_invocable_v<Loss, double, int64_t>) {
      trial->loss = loss_of(trial->lr, trial->seed);
    } else {
      trial->loss = loss_of(trial->lr);
    }
    tried.push_back(*trial);
  }
  return tried;
}

// Lowest at `ground`; two octaves off cost 0.32.
auto valley_at(double ground) {
  return [ground](double lr) { return 3 + 0.08 * std::pow(std::log2(lr / ground), 2); };
}

double lowest_lr(const std::vector<LrTrial>& tried) {
  const std::optional<double> best = best_lr(tried);
  REQUIRE(best.has_value());
  return *best;
}

std::vector<LrTrial> of_first_seed(std::vector<LrTrial> tried) {
  std::erase_if(tried, [](const LrTrial& trial) { return trial.seed != 0; });
  return tried;
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
  const std::vector<LrTrial> tried = of_first_seed(trials_of(1e-3, valley_at(1e-3)));
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
  CHECK(!best_lr(tried));
  CHECK(!best_lr({}));
}

TEST_CASE("trials end where the loss falls with the rate for ever", "[launcher]") {
  const std::vector<LrTrial> tried =
      of_first_seed(trials_of(1e-3, [](double lr) { return 1 / (1 + lr); }));
  CHECK(tried.size() == kMostLrTrials);
  CHECK(lowest_lr(tried) == tried.back().lr);
}

TEST_CASE("among rates with equal losses the smallest is taken", "[launcher]") {
  CHECK(lowest_lr({{.lr = 2e-3, .loss = 3}, {.lr = 1e-3, .loss = 3}}) == 1e-3);
}

TEST_CASE("rates that come close are tried with every seed, and no other", "[launcher]") {
  const std::vector<LrTrial> tried =
      trials_of(1, [](double lr) { return 1 + 0.08 * std::pow(std::log2(lr), 2); });
  std::vector<double> with_all;
  for (const LrMean& mean : lr_means(tried)) {
    CHECK((mean.seeds == 1 || mean.seeds == kLrTrialSeeds));
    if (mean.seeds == kLrTrialSeeds) with_all.push_back(std::log2(mean.lr));
  }
  REQUIRE(with_all.size() == 3);  // those on both sides cost 2 per cent, the next ones 8
  CHECK(with_all.front() == Approx(-0.5));
  CHECK(with_all.back() == Approx(0.5));
}

TEST_CASE("one rate that is far ahead of the others needs no other seed", "[launcher]") {
  const std::vector<LrTrial> tried =
      trials_of(1, [](double lr) { return 1 + std::abs(std::log2(lr)); });
  CHECK(of_first_seed(tried).size() == tried.size());
  CHECK(lowest_lr(tried) == 1);
}

TEST_CASE("no more than the four best rates are tried with every seed", "[launcher]") {
  const std::vector<LrTrial> tried =
      trials_of(1, [](double lr) { return 1 + 0.001 * std::abs(std::log2(lr)); });
  CHECK(of_first_seed(tried).size() == 7);
  CHECK(tried.size() == 7 + kMostClosestLrs * (kLrTrialSeeds - 1));
}

TEST_CASE("the mean over seeds ranks the rates that come close", "[launcher]") {
  const auto lucky_at_1 = [](double lr, int64_t seed) {
    const double loss = 3 + 0.08 * std::pow(std::log2(lr / std::numbers::sqrt2), 2);
    return lr == 1 && seed == 0 ? loss - 0.05 : loss;
  };
  const std::vector<LrTrial> tried = trials_of(1, lucky_at_1);
  CHECK(lowest_lr(of_first_seed(tried)) == 1);
  CHECK(lowest_lr(tried) == Approx(std::numbers::sqrt2));
}

TEST_CASE("a rate that a seed loses is not taken", "[launcher]") {
  const auto taken = [](const std::vector<LrTrial>& tried) { return best_lr(tried).value(); };
  CHECK(taken({{2, 0, 1.1}, {4, 0, 1.0}, {2, 1, 1.1}, {4, 1, NAN}}) == 2);
  CHECK(taken({{1, 0, 2.0}, {2, 0, 1.1}, {4, 0, 1.0}, {2, 1, NAN}, {4, 1, NAN}}) == 1);
  CHECK(taken({{1, 0, -3.0}, {2, 0, 1.1}, {4, 0, 1.0}, {2, 1, 1.1}, {4, 1, 1.2}}) == 2);
  CHECK(!best_lr({{2, 0, NAN}}));
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
