// Schedules against values that a reader can check by hand, and their refusals.
#include "optim/lr_schedule.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/schedules.h"

namespace ds {
namespace {

using test::make_schedule;
using test::Rates;
using test::scheduler_of;

std::vector<double> updates(const LrSchedule& schedule, int64_t count) {
  std::vector<double> rates;
  for (int64_t n = 1; n <= count; ++n) rates.push_back(schedule.lr_for_update(n));
  return rates;
}

void require_close(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("update " << i + 1);
    CHECK(got[i] == Approx(expected[i]).epsilon(1e-8).margin(1e-15));
  }
}

const double kBase[] = {0.1};

TEST_CASE("the first two updates of a warm-up run at its lowest rate", "[optim]") {
  WarmupLrParams options{.warmup_max_lr = Rates{0.001}, .warmup_num_steps = 4};
  require_close(updates(*make_schedule(options, kBase), 6),
                {0, 0, .0005, .00079248125, .001, .001});
  options.warmup_type = WarmupType::kLinear;
  require_close(updates(*make_schedule(options, kBase), 6), {0, 0, .00025, .0005, .00075, .001});
}

TEST_CASE("a warm-up without a maximum climbs to the optimizer's own rate", "[optim]") {
  const double base[] = {0.1, 0.2};
  const auto schedule = make_schedule(WarmupLrParams{.warmup_num_steps = 3}, base);
  CHECK(schedule->lr_at(10, 0) == 0.1);
  CHECK(schedule->lr_at(10, 1) == 0.2);
}

TEST_CASE("WarmupDecayLR reaches its minimum at the last step and stays there", "[optim]") {
  const WarmupDecayLrParams options{.total_num_steps = 10, .warmup_num_steps = 4};
  require_close(updates(*make_schedule(options, kBase), 13),
                {0, 0, .0005, .00079248125, .001, .001, .0008333333333, .0006666666667, .0005,
                 .0003333333333, .0001666666667, 0, 0});
}

TEST_CASE("WarmupCosineLR scales the optimizer's rate", "[optim]") {
  WarmupCosineLrParams options{.total_num_steps = 10, .warmup_num_steps = 4};
  require_close(updates(*make_schedule(options, kBase), 12),
                {0, 0, .05, .079248125036, .1, .09330194006, .0750025, .050005, .0250075,
                 .006708059938, .00001, .00001});
  options = {.total_num_steps = 10,
             .warmup_min_ratio = .1,
             .warmup_num_steps = 4,
             .cos_min_ratio = .01,
             .warmup_type = WarmupType::kLinear};
  require_close(
      updates(*make_schedule(options, kBase), 11),
      {0, .01, .0325, .055, .0775, .09336825747, .07525, .0505, .02575, .007631742513, .001});
}

TEST_CASE("LRRangeTest grows without end, in stairs when asked", "[optim]") {
  LrRangeTestParams options{
      .lr_range_test_min_lr = {1e-4}, .lr_range_test_step_size = 2, .lr_range_test_step_rate = 5};
  require_close(updates(*make_schedule(options, kBase), 5), {.0001, .00035, .0006, .00085, .0011});
  options.lr_range_test_staircase = true;
  require_close(updates(*make_schedule(options, kBase), 7),
                {.0001, .0001, .0006, .0006, .0011, .0011, .0016});
}

TEST_CASE("OneCycle mirrors momentum and then decays both", "[optim]") {
  const OneCycleParams options{.cycle_min_lr = Rates{.002},
                               .cycle_max_lr = Rates{.005},
                               .cycle_first_step_size = 4,
                               .cycle_second_step_size = 2,
                               .decay_step_size = 2,
                               .decay_lr_rate = .5,
                               .decay_mom_rate = .1};
  const auto schedule = make_schedule(options, kBase);
  require_close(updates(*schedule, 11), {.002, .00275, .0035, .00425, .005, .0035, .002, .0016,
                                         .001333333333, .001142857143, .001});
  std::vector<double> momenta;
  for (int64_t n = 1; n <= 11; ++n) momenta.push_back(schedule->momentum_for_update(n).value());
  require_close(momenta, {.8, .875, .85, .825, .8, .85, .9, .945, .99, 1.035, 1.08});
}

TEST_CASE("OneCycle sets both betas, the second to DeepSpeed's 0.99, before its first step too",
          "[optim]") {
  const auto schedule = make_schedule(
      OneCycleParams{
          .cycle_min_lr = Rates{.002}, .cycle_max_lr = Rates{.005}, .cycle_first_step_size = 4},
      kBase);
  CHECK(schedule->betas_for_update(1) == std::array{0.8, 0.99});
  CHECK(schedule->betas_for_update(2).value()[0] == Approx(0.875));
  CHECK(schedule->betas_for_update(2).value()[1] == 0.99);
  CHECK_FALSE(make_schedule(OneCycleParams{.cycle_min_lr = Rates{.1},
                                           .cycle_max_lr = Rates{.2},
                                           .cycle_momentum = false},
                            kBase)
                  ->betas_for_update(1));
  CHECK_FALSE(make_schedule(WarmupLrParams{}, kBase)->betas_for_update(1));
}

TEST_CASE("OneCycle climbs in stairs", "[optim]") {
  const OneCycleParams options{.cycle_min_lr = Rates{.002},
                               .cycle_max_lr = Rates{.005},
                               .cycle_first_step_size = 4,
                               .cycle_first_stair_count = 2};
  require_close(updates(*make_schedule(options, kBase), 8),
                {.002, .002, .0035, .0035, .005, .0035, .0035, .002});
}

TEST_CASE("an optimizer without betas keeps OneCycle away from momentum", "[optim]") {
  const OneCycleParams options{.cycle_min_lr = Rates{.002}, .cycle_max_lr = Rates{.005}};
  CHECK_FALSE(make_schedule(options, kBase, MomentumSupport::kNone)->momentum_at(3).has_value());
}

TEST_CASE("the last index is the whole state", "[optim]") {
  const WarmupLrParams options{.warmup_max_lr = Rates{0.01}, .warmup_num_steps = 100};
  const auto first = make_schedule(options, kBase);
  for (int i = 0; i < 37; ++i) first->step();
  const auto second = make_schedule(options, kBase);
  CHECK(second->current_lr() == 0.0);
  second->restore(first->last_index());
  CHECK(second->current_lr() == first->current_lr());
  second->step();
  CHECK(second->current_lr() == Approx(0.00789891798308405).epsilon(1e-12));
}

TEST_CASE(
    "a schedule that starts in the middle leaves the optimizer's rate alone until its first step",
    "[optim]") {
  const auto schedule = make_schedule(
      LrRangeTestParams{.lr_range_test_step_size = 50, .last_batch_iteration = 99}, kBase);
  CHECK(schedule->initial_lr() == 0.1);
  CHECK(schedule->last_index() == 99);
  CHECK(schedule->lr_for_update(1) == 0.1);
  CHECK(schedule->lr_for_update(2) == schedule->lr_at(100));
}

TEST_CASE("impossible step counts and lists are refused", "[optim]") {
  const double two[] = {0.1, 0.2};
  const Rates low{.1}, high{.2};
  CHECK_THROWS_AS(make_schedule(LrRangeTestParams{.lr_range_test_step_size = 0}, kBase),
                  ConfigError);
  CHECK_THROWS_AS(make_schedule(WarmupLrParams{.warmup_num_steps = -5}, kBase), ConfigError);
  CHECK_THROWS_AS(
      make_schedule(WarmupCosineLrParams{.total_num_steps = 9, .warmup_num_steps = 0}, kBase),
      ConfigError);
  OneCycleParams cycle{.cycle_min_lr = low, .cycle_max_lr = high};
  CHECK(make_schedule(cycle, two)->lr_at(-1, 1) == .1);  // one value for all groups
  cycle.cycle_first_step_size = 0;
  CHECK_THROWS_AS(make_schedule(cycle, kBase), ConfigError);
  cycle = {.cycle_min_lr = low, .cycle_max_lr = high, .cycle_second_step_size = -1};
  CHECK_THROWS_AS(make_schedule(cycle, kBase), ConfigError);
  cycle = {.cycle_min_lr = low, .cycle_max_lr = high, .cycle_max_mom = {0.1, 0.2, 0.3}};
  CHECK_THROWS_AS(make_schedule(cycle, two), ConfigError);
  CHECK_THROWS_AS(make_schedule(LrRangeTestParams{.lr_range_test_min_lr = {0.1, 0.2}}, kBase),
                  ConfigError);
}

TEST_CASE("what a schedule needs and does not have is refused by name", "[optim]") {
  CHECK_THROWS_WITH(make_schedule(WarmupDecayLrParams{}, kBase),
                    Catch::Contains("total_num_steps"));
  CHECK_THROWS_WITH(make_schedule(WarmupCosineLrParams{}, kBase),
                    Catch::Contains("total_num_steps"));
  CHECK_THROWS_WITH(make_schedule(OneCycleParams{.cycle_max_lr = Rates{.2}}, kBase),
                    Catch::Contains("cycle_min_lr"));
  CHECK_THROWS_AS(make_lr_schedule({}, kBase), InternalError);
}

}  // namespace
}  // namespace ds
