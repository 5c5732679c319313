// Every schedule against its formula as the header has it, over many options; what is the same for
// all of them; and every refusal by name.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "core/status/error.h"
#include "kernels/step/scalars.h"
#include "optim/batch_lr.h"
#include "optim/clip.h"
#include "optim/lr_schedule.h"
#include "tests/support/catch.h"
#include "tests/support/schedules.h"

namespace ds {
namespace {

using test::make_schedule;
using test::Rates;
using test::scheduler_of;

const double kBase[] = {0.2, 0.4};

// ln(i + 1) / ln N, or i / N.
double rising(WarmupType shape, int64_t i, int64_t steps) {
  const auto n = static_cast<double>(steps);
  if (shape == WarmupType::kLinear) return static_cast<double>(i) / n;
  return std::log(static_cast<double>(i + 1)) / std::log(n);
}

TEST_CASE("a range test grows by its rate in every interval of its step size", "[optim]") {
  for (const bool staircase : {false, true}) {
    for (const int64_t size : {1, 3, 10}) {
      const LrRangeTestParams options{.lr_range_test_min_lr = {0.01},
                                      .lr_range_test_step_size = size,
                                      .lr_range_test_step_rate = 2.5,
                                      .lr_range_test_staircase = staircase};
      const auto schedule = make_schedule(options, kBase);
      for (int64_t i = 0; i < 40; ++i) {
        double u = static_cast<double>(i + 1) / static_cast<double>(size);
        if (staircase) u = std::floor(u);
        CHECK(schedule->lr_at(i) == Approx(0.01 * (1 + 2.5 * u)).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("warm-ups follow their formula, of one step too", "[optim]") {
  for (const WarmupType shape : {WarmupType::kLog, WarmupType::kLinear}) {
    for (const int64_t steps : {1, 2, 3, 17}) {
      const int64_t n = std::max<int64_t>(2, steps);
      const auto plain = make_schedule(WarmupLrParams{.warmup_min_lr = {0.1},
                                                      .warmup_max_lr = Rates{0.5},
                                                      .warmup_num_steps = steps,
                                                      .warmup_type = shape},
                                       kBase);
      for (int64_t i = 0; i < 30; ++i) {
        const double gamma = i < n ? rising(shape, i, n) : 1;
        CHECK(plain->lr_at(i) == Approx(0.1 + 0.4 * gamma).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("a decay after a warm-up follows its formula, shorter totals included", "[optim]") {
  for (const WarmupType shape : {WarmupType::kLog, WarmupType::kLinear}) {
    for (const int64_t total : {20, 6, 5, 0}) {
      const int64_t n = 5;
      const auto schedule = make_schedule(WarmupDecayLrParams{.total_num_steps = total,
                                                              .warmup_min_lr = {0.1},
                                                              .warmup_max_lr = {0.5},
                                                              .warmup_num_steps = n,
                                                              .warmup_type = shape},
                                          kBase);
      for (int64_t i = 0; i < 30; ++i) {
        const double fall =
            static_cast<double>(total - i) / static_cast<double>(std::max<int64_t>(1, total - 5));
        const double gamma = i < n ? rising(shape, i, n) : std::max(0.0, fall);
        CAPTURE(total, i);
        CHECK(schedule->lr_at(i) == Approx(0.1 + 0.4 * gamma).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("a cosine after a warm-up follows its formula, for each group's own rate", "[optim]") {
  for (const int64_t total : {30, 7, 4}) {
    const int64_t n = 4;
    const auto schedule = make_schedule(WarmupCosineLrParams{.total_num_steps = total,
                                                             .warmup_min_ratio = 0.1,
                                                             .warmup_num_steps = n,
                                                             .cos_min_ratio = 0.02,
                                                             .warmup_type = WarmupType::kLinear},
                                        kBase);
    for (int64_t i = 0; i < 40; ++i) {
      const double x = std::min(1.0, static_cast<double>(i - n + 1) /
                                         static_cast<double>(std::max<int64_t>(1, total - 4)));
      const double falling = 0.02 + 0.98 * (1 + std::cos(std::numbers::pi * x)) / 2;
      const double ratio =
          i < n ? 0.1 + 0.9 * rising(WarmupType::kLinear, i, n) : std::max(0.0, falling);
      CAPTURE(total, i);
      CHECK(schedule->lr_at(i, 0) == Approx(0.2 * ratio).epsilon(1e-12));
      CHECK(schedule->lr_at(i, 1) == Approx(0.4 * ratio).epsilon(1e-12));
    }
    CHECK(schedule->lr_at(1000) == Approx(0.2 * 0.02));
    CHECK(schedule->initial_lr() == 0);
  }
}

TEST_CASE("one cycle is a triangle whose momentum mirrors it, and then falls", "[optim]") {
  const OneCycleParams options{.cycle_min_lr = Rates{0.1},
                               .cycle_max_lr = Rates{0.5},
                               .cycle_first_step_size = 4,
                               .cycle_second_step_size = 8,
                               .decay_step_size = 2,
                               .decay_lr_rate = 0.5,
                               .cycle_min_mom = {0.8},
                               .cycle_max_mom = {0.9},
                               .decay_mom_rate = 0.25};
  const auto schedule = make_schedule(options, kBase);
  for (int64_t i = 0; i < 30; ++i) {
    const auto at = static_cast<double>(i + 1);
    double lr = 0, momentum = 0;
    if (i < 12) {
      const double height = at <= 4 ? at / 4 : at < 12 ? 1 - (at - 4) / 8 : 0;
      lr = 0.1 + 0.4 * height;
      momentum = 0.9 - 0.1 * height;
    } else {
      const double interval = (at - 12) / 2;
      lr = 0.1 / (1 + 0.5 * interval);
      momentum = 0.9 * (1 + 0.25 * interval);
    }
    CAPTURE(i);
    CHECK(schedule->lr_at(i) == Approx(lr).epsilon(1e-9));
    CHECK(schedule->momentum_at(i).value_or(-1) == Approx(momentum).epsilon(1e-9));
  }
  OneCycleParams flat = options;
  flat.decay_lr_rate = 0;
  flat.decay_mom_rate = 0;
  const auto stays = make_schedule(flat, kBase);
  CHECK(stays->lr_at(100) == 0.1);
  CHECK(stays->momentum_at(100) == 0.9);
}

TEST_CASE("a cycle's second half may be empty, and its stairs differ", "[optim]") {
  const auto sharp = make_schedule(OneCycleParams{.cycle_min_lr = Rates{0.1},
                                                  .cycle_max_lr = Rates{0.5},
                                                  .cycle_first_step_size = 4,
                                                  .cycle_second_step_size = 0},
                                   kBase);
  CHECK(sharp->lr_at(1) == Approx(0.3));
  CHECK(sharp->lr_at(10) == 0.1);
  const auto stairs = make_schedule(OneCycleParams{.cycle_min_lr = Rates{0.0},
                                                   .cycle_max_lr = Rates{1.0},
                                                   .cycle_first_step_size = 4,
                                                   .cycle_second_step_size = 4,
                                                   .cycle_first_stair_count = 2,
                                                   .cycle_second_stair_count = 0},
                                    kBase);
  CHECK(stairs->lr_at(0) == Approx(0));  // a quarter of the way: no stair yet
  CHECK(stairs->lr_at(1) == Approx(0.5));
  CHECK(stairs->lr_at(2) == Approx(0.5));
  CHECK(stairs->lr_at(3) == Approx(1));
  CHECK(stairs->lr_at(4) == Approx(0.75));  // the way down is continuous
}

std::vector<SchedulerConfig> one_of_each(int64_t last) {
  return {
      scheduler_of(LrRangeTestParams{.last_batch_iteration = last}),
      scheduler_of(OneCycleParams{
          .cycle_min_lr = Rates{0.1}, .cycle_max_lr = Rates{0.3}, .last_batch_iteration = last}),
      scheduler_of(WarmupLrParams{.warmup_min_lr = {0.01}, .last_batch_iteration = last}),
      scheduler_of(WarmupDecayLrParams{.total_num_steps = 5000, .last_batch_iteration = last}),
      scheduler_of(WarmupCosineLrParams{.total_num_steps = 5000, .last_batch_iteration = last})};
}

TEST_CASE("update n runs with the rate of index n - 2, whatever was asked before", "[optim]") {
  for (const SchedulerConfig& config : one_of_each(-1)) {
    CAPTURE(static_cast<int>(*config.type));
    const auto schedule = make_lr_schedule(config, kBase);
    CHECK(schedule->last_index() == -1);
    CHECK(schedule->group_count() == 2);
    for (const int64_t n : {500, 2, 3, 100}) {
      CHECK(schedule->lr_for_update(n, 1) == schedule->lr_at(n - 2, 1));
      CHECK(schedule->momentum_for_update(n) == schedule->momentum_at(n - 2));
    }
    CHECK(schedule->lr_for_update(1) == schedule->initial_lr());
    CHECK(schedule->current_lr() == schedule->initial_lr());
    // Stepping is what checkpoints restore.
    for (int64_t n = 1; n <= 5; ++n) schedule->step();
    CHECK(schedule->last_index() == 4);
    const auto restored = make_lr_schedule(config, kBase);
    restored->restore(4);
    CHECK(restored->current_lr(1) == schedule->lr_at(4, 1));
    CHECK(restored->current_momentum() == schedule->current_momentum());
    for (const int64_t n : {0, -1}) {
      CHECK_THROWS_WITH(schedule->lr_for_update(n),
                        Catch::Contains(fmt::format("update number is {}", n)));
      CHECK_THROWS_AS(schedule->momentum_for_update(n), InternalError);
    }
  }
}

TEST_CASE("a schedule that goes on counts from where it was, and begins at the optimizer's rate",
          "[optim]") {
  for (const SchedulerConfig& config : one_of_each(9)) {
    CAPTURE(static_cast<int>(*config.type));
    const auto schedule = make_lr_schedule(config, kBase);
    CHECK(schedule->last_index() == 9);
    CHECK(schedule->lr_for_update(1, 1) == 0.4);
    CHECK(schedule->lr_for_update(2, 1) == schedule->lr_at(10, 1));
    CHECK(schedule->lr_for_update(5, 0) == schedule->lr_at(13, 0));
  }
}

TEST_CASE("only one schedule drives momentum, where the optimizer has one", "[optim]") {
  for (const SchedulerConfig& config : one_of_each(-1)) {
    const auto with = make_lr_schedule(config, kBase, MomentumSupport::kBetas);
    const auto without = make_lr_schedule(config, kBase, MomentumSupport::kNone);
    CHECK(with->momentum_at(3).has_value() == (config.type == SchedulerType::kOneCycle));
    CHECK_FALSE(without->momentum_at(3));
    CHECK_FALSE(without->betas_for_update(3));
    CHECK(with->lr_at(3) == without->lr_at(3));
  }
}

TEST_CASE("a list has one value for each group, and says so where it has not", "[optim]") {
  const auto lists = make_schedule(
      WarmupLrParams{.warmup_min_lr = {0.0, 0.1}, .warmup_max_lr = Rates{0.5, 0.7}}, kBase);
  CHECK(lists->lr_at(5000, 0) == 0.5);
  CHECK(lists->lr_at(5000, 1) == 0.7);
  CHECK(lists->initial_lr(1) == 0.1);
  const Rates three{1, 2, 3};
  const OneCycleParams cycle{.cycle_min_lr = Rates{0.1}, .cycle_max_lr = Rates{0.3}};
  const auto changed = [&](auto member, auto value) {
    OneCycleParams params = cycle;
    params.*member = value;
    return scheduler_of(params);
  };
  const std::vector<std::pair<SchedulerConfig, const char*>> refused{
      {scheduler_of(WarmupLrParams{.warmup_min_lr = three}),
       "warmup_min_lr is a list of 3 values, expected one, or one for"},
      {scheduler_of(WarmupLrParams{.warmup_max_lr = three}), "warmup_max_lr"},
      {changed(&OneCycleParams::cycle_min_lr, three), "cycle_min_lr"},
      {changed(&OneCycleParams::cycle_max_mom, three), "cycle_max_mom"},
      {scheduler_of(LrRangeTestParams{.lr_range_test_min_lr = three}), "lr_range_test_min_lr"},
      {scheduler_of(LrRangeTestParams{.lr_range_test_step_size = 0}),
       "lr_range_test_step_size is 0, expected more than 0"},
      {changed(&OneCycleParams::cycle_first_step_size, -1), "cycle_first_step_size is -1"},
      {changed(&OneCycleParams::cycle_second_step_size, -2), "cycle_second_step_size is -2"},
      {scheduler_of(WarmupLrParams{.warmup_num_steps = 0}), "warmup_num_steps is 0"},
      {scheduler_of(WarmupDecayLrParams{.total_num_steps = 5, .warmup_num_steps = -4}),
       "warmup_num_steps is -4"},
      {scheduler_of(WarmupCosineLrParams{.total_num_steps = 5, .warmup_num_steps = 0}),
       "warmup_num_steps is 0"},
      {scheduler_of(OneCycleParams{.cycle_max_lr = Rates{0.3}}), "cycle_min_lr"},
      {scheduler_of(WarmupDecayLrParams{}), "total_num_steps"},
      {scheduler_of(WarmupCosineLrParams{}), "total_num_steps"}};
  for (const auto& [config, message] : refused) {
    CAPTURE(message);
    CHECK_THROWS_AS(make_lr_schedule(config, kBase), ConfigError);
    CHECK_THROWS_WITH(make_lr_schedule(config, kBase), Catch::Contains(message));
  }
  CHECK_THROWS_WITH(make_schedule(WarmupLrParams{}, {}), Catch::Contains("no parameter group"));
}

TEST_CASE("a clipped gradient is never longer than it may be, and a short one is left alone",
          "[optim]") {
  for (const double norm : {0.0, 1e-9, 0.3, 1.0, 7.5, 1e12}) {
    for (const double most : {0.1, 1.0, 5.0}) {
      const double factor = static_cast<double>(kernels::clip_factor(norm, most));
      CAPTURE(norm, most);
      CHECK(factor <= 1);
      CHECK(factor * norm <= most * (1 + 1e-6));
      if (norm < most - 1e-5) CHECK(factor == 1);
      for (const double scale : {1.0, 1024.0}) {
        const double both = unscale_and_clip_factor(norm * scale, scale, most);
        CHECK(both * norm * scale <= most * (1 + 1e-6));
        CHECK(both <= 1 / scale);
      }
    }
    CHECK(kernels::clip_factor(norm, 0) == 1.0F);
    CHECK(kernels::clip_factor(norm, -1) == 1.0F);
    CHECK(unscale_and_clip_factor(norm, 8, 0) == 0.125);
  }
  CHECK_THROWS_WITH(unscale_and_clip_factor(1, -2, 1), Catch::Contains("the loss scale is -2"));
}

TEST_CASE("a rate for another batch follows its rule, and the batch it was tuned for is kept",
          "[optim]") {
  for (const BatchLrRule rule : {BatchLrRule::kNone, BatchLrRule::kLinear, BatchLrRule::kSqrt}) {
    CHECK(lr_for_batch(0.3, 64, 64, rule) == Approx(0.3));
  }
  CHECK(lr_for_batch(0.3, 64, 256, BatchLrRule::kNone) == 0.3);
  CHECK(lr_for_batch(0.3, 64, 256, BatchLrRule::kLinear) == Approx(1.2));
  CHECK(lr_for_batch(0.3, 64, 256, BatchLrRule::kSqrt) == Approx(0.6));
  CHECK(lr_for_batch(0.3, 64, 0, BatchLrRule::kLinear) == 0);
  CHECK_THROWS_WITH(lr_for_batch(0.3, 0, 4, BatchLrRule::kSqrt),
                    Catch::Contains("batch 4 from a base of 0"));
  CHECK_THROWS_AS(lr_for_batch(0.3, 4, -1, BatchLrRule::kSqrt), InternalError);
}

}  // namespace
}  // namespace ds
