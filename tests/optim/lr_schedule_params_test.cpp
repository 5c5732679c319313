// Scheduler parameters by name: defaults, lists, and what is refused.
#include "optim/lr_schedule_params.h"

#include "core/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("parameters that are not given keep their defaults", "[optim]") {
  const auto options = std::get<WarmupDecayOptions>(lr_schedule_options(
      "WarmupDecayLR",
      {{"total_num_steps", int64_t{150}}, {"warmup_min_lr", std::vector{0.1, 0.2}}}));
  CHECK(options.total_num_steps == 150);
  CHECK(options.num_steps == 1000);
  CHECK(std::get<double>(options.max_lr.value()) == 1e-3);
  CHECK(std::get<std::vector<double>>(options.min_lr) == std::vector{0.1, 0.2});
}

TEST_CASE("a total of steps may be written as any number", "[optim]") {
  const auto total = [](const char* type, ScheduleValue value) {
    return lr_schedule_options(type, {{"total_num_steps", std::move(value)}});
  };
  CHECK(std::get<WarmupDecayOptions>(total("WarmupDecayLR", 1e2)).total_num_steps == 100);
  CHECK(std::get<WarmupCosineOptions>(total("WarmupCosineLR", 20.5)).total_num_steps == 20.5);
  CHECK_THROWS_AS(total("WarmupDecayLR", std::string("10")), ConfigError);
}

TEST_CASE("null means the optimizer's own rate", "[optim]") {
  const auto options = std::get<WarmupOptions>(
      lr_schedule_options("WarmupLR", {{"warmup_max_lr", std::monostate{}}}));
  CHECK_FALSE(options.max_lr.has_value());
}

TEST_CASE("an unknown warm-up shape means log", "[optim]") {
  const auto shape = [](const char* name) {
    return std::get<WarmupOptions>(
               lr_schedule_options("WarmupLR", {{"warmup_type", std::string(name)}}))
        .shape;
  };
  CHECK(shape("linear") == WarmupShape::kLinear);
  CHECK(shape("something") == WarmupShape::kLog);
}

TEST_CASE("unknown, missing and ill-typed parameters are refused by name", "[optim]") {
  CHECK_THROWS_WITH(lr_schedule_options("WarmupLR", {{"warmup_steps", int64_t{5}}}),
                    Catch::Contains("warmup_steps"));
  CHECK_THROWS_WITH(lr_schedule_options("WarmupDecayLR", {}), Catch::Contains("total_num_steps"));
  CHECK_THROWS_WITH(lr_schedule_options("WarmupLR", {{"warmup_num_steps", std::monostate{}}}),
                    Catch::Contains("whole number"));
  CHECK_THROWS_AS(lr_schedule_options("WarmupLR", {{"warmup_num_steps", 2.5}}), ConfigError);
  CHECK_THROWS_AS(lr_schedule_options("LRRangeTest", {{"lr_range_test_staircase", 1.0}}),
                  ConfigError);
  CHECK_THROWS_AS(lr_schedule_options("1Cycle", {}), ConfigError);
}

TEST_CASE("the headline rate is the peak, except for the range test", "[optim]") {
  const ScheduleParams params{{"cycle_min_lr", 0.1}, {"cycle_max_lr", 0.4}};
  CHECK(std::get<double>(headline_lr("OneCycle", params)) == 0.4);
  CHECK_THROWS_AS(headline_lr("WarmupLR", {}), ConfigError);
  CHECK_THROWS_AS(headline_lr("Other", {}), ConfigError);
  CHECK_THROWS_AS(headline_lr("WarmupOther", {{"warmup_max_lr", 0.1}}), ConfigError);
}

}  // namespace
}  // namespace ds
