// What of a checkpoint of DeepSpeed a run goes on with, what is to be asked for, what is refused.
#include "tests/support/catch.h"
#include "train/settings/deepspeed_facts.h"

namespace ds {
namespace {

DeepSpeedFacts facts() {
  DeepSpeedFacts facts{.path = "/ds/global_step10",
                       .progress = {},
                       .slots = {"exp_avg", "exp_avg_sq"},
                       .frozen = {}};
  facts.progress.steps = 10;
  facts.progress.samples = 80;
  facts.progress.updates = 10;
  facts.progress.settings = {{"optimizer.type", "AdamW"}};
  return facts;
}

RunToGoOn run() {
  return {.optimizer = "adam",
          .slots = {"exp_avg", "exp_avg_sq"},
          .schedule = "",
          .global_batch = 8,
          .loss_scale = {},
          .config = ""};
}

LossScaleRule dynamic() {
  return {.kind = LossScaling::kDynamic, .options = {.init_scale = 65536, .hysteresis = 2}};
}

using Words = std::vector<std::string>;

TEST_CASE("a checkpoint of the same optimizer and batch is gone on with, without a word",
          "[train]") {
  const Continuation next = continuation_of(facts(), run());
  CHECK(next.refusal.empty());
  CHECK(next.changes.empty());
  CHECK(next.notes.empty());
  CHECK(next.step == 10);
  CHECK(next.skipped == 0);
  CHECK_FALSE(next.scaler);
}

TEST_CASE("steps without an update are those that the optimizer has not counted", "[train]") {
  DeepSpeedFacts from = facts();
  from.progress.updates = 7;
  CHECK(continuation_of(from, run()).skipped == 3);
  from.progress.updates.reset();
  from.progress.skipped = 2;
  CHECK(continuation_of(from, run()).skipped == 2);
  from.progress.updates = 11;
  CHECK_THAT(continuation_of(from, run()).refusal, Catch::Contains("11 updates in 10 steps"));
}

TEST_CASE("another optimizer is refused, by its name or by what it keeps", "[train]") {
  DeepSpeedFacts from = facts();
  from.progress.settings["optimizer.type"] = "Lamb";
  CHECK_THAT(continuation_of(from, run()).refusal,
             Catch::Contains("saved with the optimizer Lamb, and this run has adam"));
  from.progress.settings["optimizer.type"] = "adam";
  CHECK(continuation_of(from, run()).refusal.empty());
  from.slots = {"exp_avg"};
  CHECK_THAT(
      continuation_of(from, run()).refusal,
      Catch::Contains("keeps exp_avg of each parameter, and that of this run (adam) exp_avg, "));
  from.slots.clear();
  CHECK_THAT(continuation_of(from, run()).refusal, Catch::Contains("keeps nothing"));
  RunToGoOn other = run();
  other.optimizer = "adam, zenflow";
  CHECK_THAT(continuation_of(facts(), other).refusal, Catch::Contains("adam, zenflow"));
  from = facts();
  from.progress.settings.clear();
  const Continuation unnamed = continuation_of(from, run());
  CHECK(unnamed.refusal.empty());
  CHECK_THAT(unnamed.notes.at(0), Catch::Contains("does not name its optimizer"));
}

TEST_CASE("weights that were frozen are named, the first of many", "[train]") {
  DeepSpeedFacts from = facts();
  from.frozen = {"a", "b", "c", "d", "e", "f"};
  CHECK_THAT(continuation_of(from, run()).refusal,
             Catch::Contains("a, b, c, d and 2 more were not trained") &&
                 Catch::Contains("convert /ds/global_step10 OUT"));
}

TEST_CASE("samples that each tensor-parallel rank has counted are those of one", "[train]") {
  DeepSpeedFacts from = facts();
  from.progress.samples = 160;
  from.progress.tensor_ranks = 2;
  CHECK(continuation_of(from, run()).changes.empty());
  from.progress.samples = 320;
  CHECK(continuation_of(from, run()).changes.size() == 1);
}

TEST_CASE("another number of samples has to be asked for", "[train]") {
  RunToGoOn other = run();
  other.global_batch = 16;
  const Continuation next = continuation_of(facts(), other);
  CHECK(next.refusal.empty());
  REQUIRE(next.changes.size() == 1);
  CHECK_THAT(next.changes[0], Catch::Contains("80 samples") && Catch::Contains("160"));
  DeepSpeedFacts silent = facts();
  silent.progress.samples = 0;  // DeepSpeed did not count them
  CHECK(continuation_of(silent, other).changes.empty());
}

TEST_CASE("a scheduler goes on where it was, and where it was not, that is said", "[train]") {
  DeepSpeedFacts from = facts();
  RunToGoOn scheduled = run();
  scheduled.schedule = "WarmupLR";
  CHECK_THAT(continuation_of(from, scheduled).notes.at(0), Catch::Contains("no position"));
  from.progress.scheduler_steps = 10;
  from.progress.settings["scheduler.type"] = "WarmupLR";
  CHECK(continuation_of(from, scheduled).notes.empty());
  CHECK_THAT(continuation_of(from, run()).notes.at(0), Catch::Contains("is not gone on with"));
  scheduled.schedule = "OneCycle";
  CHECK(continuation_of(from, scheduled).notes ==
        Words{"scheduler.type was WarmupLR and is OneCycle"});
  scheduled.schedule = "WarmupLR";
  from.progress.scheduler_steps = 40;
  CHECK_THAT(continuation_of(from, scheduled).changes.at(0),
             Catch::Contains("40 steps and its optimizer 10 updates"));
}

TEST_CASE("a loss scale goes on where both move", "[train]") {
  DeepSpeedFacts from = facts();
  from.progress.scaler = {.is_dynamic = true, .scale = 1024, .iterations = 10, .last_overflow = 4};
  RunToGoOn half = run();
  half.loss_scale = dynamic();
  Continuation next = continuation_of(from, half);
  CHECK(next.notes.empty());
  CHECK(next.scaler ==
        LossScaleState{.scale = 1024, .iteration = 10, .last_overflow = 4, .hysteresis = 2});
  from.progress.scaler->hysteresis = 1;
  CHECK(continuation_of(from, half).scaler->hysteresis == 1);
  CHECK_THAT(continuation_of(from, run()).notes.at(0), Catch::Contains("scales no losses"));
  half.loss_scale.kind = LossScaling::kFixed;
  CHECK_THAT(continuation_of(from, half).notes.at(0), Catch::Contains("is fixed"));
  half.loss_scale = dynamic();
  from.progress.scaler->is_dynamic = false;
  next = continuation_of(from, half);
  CHECK_FALSE(next.scaler);
  CHECK_THAT(next.notes.at(0), Catch::Contains("begins anew"));
}

TEST_CASE("keys of the optimizer and the scheduler that differ are named", "[train]") {
  DeepSpeedFacts from = facts();
  from.progress.settings = {{"optimizer.type", "AdamW"},
                            {"optimizer.params.lr", "0.01"},
                            {"optimizer.params.weight_decay", "0"},
                            {"optimizer.params.betas", "[0.9, 0.95]"},
                            {"optimizer.params.unknown", "1"}};
  RunToGoOn own = run();
  own.config = R"({"optimizer": {"type": "Adam", "params":
      {"lr": 0.02, "weight_decay": 0.0, "betas": [0.9, 0.999]}}})";
  CHECK(continuation_of(from, own).notes ==
        Words{"optimizer.params.betas was [0.9, 0.95] and is [0.9, 0.999]",
              "optimizer.params.lr was 0.01 and is 0.02"});
  own.config = R"({"optimizer": {"params": {"lr": 1e-2, "betas": [0.9, 0.95]}}})";
  CHECK(continuation_of(from, own).notes.empty());
}

}  // namespace
}  // namespace ds
