#include "train/settings/step_settings.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("without a schedule all steps have one rate, and the optimizer's betas", "[train]") {
  const StepRules rules({.base_lr = 0.25});
  for (const int64_t step : {1, 2, 1000}) {
    const StepSettings settings = rules.settings_at(step);
    CHECK(settings.step == step);
    CHECK(settings.lr == 0.25);
    CHECK(!settings.betas);
  }
}

TEST_CASE("a schedule says the rate of each step, asked in any order", "[train]") {
  const SchedulerConfig warmup{
      .type = SchedulerType::kWarmupLR,
      .warmup = {.warmup_num_steps = 4, .warmup_type = WarmupType::kLinear}};
  const StepRules rules({.base_lr = 1.0, .schedule = warmup});
  CHECK(rules.settings_at(9).lr == 1.0);
  CHECK(rules.settings_at(3).lr == 0.25);  // that of the index that step 2 ended with
  CHECK(rules.settings_at(4).lr == 0.5);
  CHECK(rules.settings_at(3).lr == 0.25);
}

TEST_CASE("a curriculum says how long the samples of a step are", "[train]") {
  const StepRules whole({.length = 16});
  CHECK(whole.settings_at(7).shape.length == 16);
  REQUIRE(whole.shapes(100).size() == 1);
  CHECK(whole.shapes(100).front().shape.length == 16);
  const StepRules rules({.length = 16,
                         .lengths = CurriculumOptions{.min_difficulty = 0,
                                                      .max_difficulty = 24,
                                                      .schedule_type = "fixed_discrete",
                                                      .difficulty = {0, 4, 8, 24},
                                                      .max_step = {2, 4, 6}}});
  const auto length = [&](int64_t step) { return rules.settings_at(step, 1).shape.length; };
  CHECK(length(1) == 1);  // less is none
  CHECK(length(3) == 4);
  CHECK(length(6) == 8);
  CHECK(length(7) == 16);  // and there are no more
  const std::vector<StepRules::FirstStep> shapes = rules.shapes(1000);
  REQUIRE(shapes.size() == 4);
  CHECK(shapes[0].shape.length == 16);
  CHECK(shapes[0].step == 7);
  CHECK(shapes[3].shape.length == 1);
  CHECK(shapes[3].step == 1);
  CHECK(rules.shapes(4).size() == 2);
}

TEST_CASE("a cycle drives the betas of optimizers that have some", "[train]") {
  const SchedulerConfig cycle{.type = SchedulerType::kOneCycle,
                              .one_cycle = {.cycle_min_lr = std::vector{0.1},
                                            .cycle_max_lr = std::vector{1.0},
                                            .cycle_first_step_size = 2,
                                            .cycle_min_mom = {0.5},
                                            .cycle_max_mom = {0.9}}};
  const StepRules rules({.base_lr = 1.0, .schedule = cycle});
  const auto rising = rules.settings_at(2).betas;
  const auto top = rules.settings_at(3).betas;
  REQUIRE(rising);
  REQUIRE(top);
  CHECK((*rising)[1] == kCycledBeta2);
  CHECK((*top)[0] == 0.5);
  CHECK((*rising)[0] > 0.5);
  const StepRules without({.base_lr = 1.0, .schedule = cycle, .momentum = MomentumSupport::kNone});
  CHECK(!without.settings_at(3).betas);
}

TEST_CASE("dropout of a step is that of its number and the seed", "[train]") {
  const StepRules rules({.seed = 5}), same({.seed = 5}), other({.seed = 6});
  const auto key = [](const StepRules& of, int64_t step) {
    return of.settings_at(step).dropout.key();
  };
  CHECK(key(rules, 1) == Rng(5, "dropout").derive(0).key());
  CHECK(key(rules, 7) == key(same, 7));
  CHECK(key(rules, 7) != key(rules, 8));
  CHECK(key(rules, 7) != key(other, 7));
}

TEST_CASE("what is no step has no settings", "[train]") {
  const StepRules rules({});
  CHECK_THROWS_AS(rules.settings_at(0), Error);
  const SchedulerConfig wrong{.type = SchedulerType::kWarmupLR, .warmup = {.warmup_num_steps = 0}};
  CHECK_THROWS_AS(StepRules({.schedule = wrong}), ConfigError);
}

}  // namespace
}  // namespace ds
