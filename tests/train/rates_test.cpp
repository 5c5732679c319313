// What a configuration alone says of the rates of a run.
#include "train/settings/rates.h"

#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

Config with(const std::string& rest) {
  return parse_config(R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}, )" + rest + "}");
}

}  // namespace

TEST_CASE("a configuration says the rate of an update", "[train]") {
  CHECK(settings_of_update(with(R"("train": {"steps": 8})"), 5).lr == 0.01);
  const Config warm = with(
      R"("train": {"steps": 8}, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001,
         "warmup_max_lr": 0.01, "warmup_num_steps": 6, "warmup_type": "linear"}})");
  CHECK(settings_of_update(warm, 4).lr == Approx(0.001 + 0.009 * 2 / 6));
  CHECK_FALSE(settings_of_update(warm, 4).betas);
}

TEST_CASE("a schedule is as long as the run unless it says so, or cannot be told", "[train]") {
  constexpr const char* kDecay =
      R"(, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 0}})";
  const Config steps = with(std::string(R"("train": {"steps": 8})") + kDecay);
  CHECK(schedule_of(steps).warmup_decay.total_num_steps == 8);
  CHECK(schedule_of(steps).warmup_decay.warmup_num_steps == 1);
  CHECK(settings_of_update(steps, 9).lr < settings_of_update(steps, 5).lr);
  const Config epochs = with(std::string(R"("train": {"epochs": 2})") + kDecay);
  CHECK_THROWS_AS(settings_of_update(epochs, 5), ConfigError);
}

TEST_CASE("a schedule that drives the momentum says both betas", "[train]") {
  const Config cycle = with(
      R"("train": {"steps": 8}, "scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0.001,
         "cycle_max_lr": 0.01, "cycle_first_step_size": 4}})");
  CHECK(settings_of_update(cycle, 2).betas);
}

}  // namespace ds
