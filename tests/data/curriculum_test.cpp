// Curriculum and random-LTD schedules, mostly by tests/golden/curriculum.txt.
#include "data/efficiency/curriculum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/status/error.h"
#include "data/efficiency/token_drop.h"
#include "tests/support/arguments.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;
using ds::testing::Arguments;

namespace {

CurriculumOptions curriculum_options(const Arguments& args) {
  CurriculumOptions options{.min_difficulty = args.integer("min"),
                            .max_difficulty = args.integer("max"),
                            .schedule_type = args.verb,
                            .difficulty = args.list<int64_t>("difficulty"),
                            .max_step = args.list<int64_t>("max_step")};
  if (args.has("steps")) options.total_curriculum_step = args.integer("steps");
  if (args.has("by")) options.difficulty_step = args.integer("by");
  if (args.has("root")) options.root_degree = args.number("root");
  return options;
}

std::string answer(const std::string& command) {
  const Arguments args(command);
  try {
    if (args.verb == "random_ltd") {
      TokenDropSchedule schedule({.total_layers = args.integer("layers"),
                                  .dropping_layers = args.integer("dropping"),
                                  .global_batch_size = args.integer("batch"),
                                  .min_value = args.integer("min"),
                                  .max_value = args.integer("max"),
                                  .require_steps = args.integer("steps"),
                                  .seq_per_step = args.integer("by")});
      std::string out;
      for (const int64_t t : args.list<int64_t>("t")) {
        schedule.update(t);
        out += fmt::format("step {}: keep {}, consumed {}\n", t, schedule.state().kept_length,
                           schedule.state().consumed_layer_tokens);
      }
      return out;
    }
    Curriculum curriculum(curriculum_options(args));
    std::vector<int64_t> difficulty;
    for (const int64_t t : args.list<int64_t>("t")) difficulty.push_back(curriculum.update(t));
    return fmt::format("{}\n", fmt::join(difficulty, " "));
  } catch (const ConfigError& error) {
    return fmt::format("error: {}\n", error.what());
  }
}

}  // namespace

TEST_CASE("schedules of curriculum and random-LTD follow the golden file", "[data]") {
  ds::testing::run_golden("curriculum.txt", answer);
}

TEST_CASE("a curriculum resumes from its difficulty and does not look back", "[data]") {
  Curriculum curriculum({.min_difficulty = 8,
                         .max_difficulty = 32,
                         .schedule_type = "fixed_discrete",
                         .difficulty = {8, 16, 32},
                         .max_step = {5, 10}});
  CHECK(curriculum.update(7) == 16);
  CHECK(curriculum.update(2) == 8);
  CHECK(curriculum.update(11) == 32);
  CHECK(curriculum.update(2) == 32);
  CHECK(curriculum.at(2) == 8);
  curriculum.restore(16);
  CHECK(curriculum.update(6) == 16);
}

TEST_CASE("past the last max_step the last difficulty holds, whatever stands before", "[data]") {
  const DiscreteSchedule schedule{.difficulty = {1, 2, 9}, .max_step = {3, 1}};
  CHECK(schedule.at(1) == 1);
  CHECK(schedule.at(2) == 9);
}

TEST_CASE("a run stays at the maximum once it has been there, and knows where it changes",
          "[data]") {
  const Curriculum levels({.min_difficulty = 1,
                           .max_difficulty = 9,
                           .schedule_type = "fixed_discrete",
                           .difficulty = {2, 2, 9, 4},
                           .max_step = {3, 5, 8}});
  CHECK(levels.of_step(5) == 2);
  CHECK(levels.of_step(6) == 9);
  CHECK(levels.at(9) == 4);
  CHECK(levels.of_step(9) == 9);
  CHECK(levels.changes(100) == std::vector<int64_t>{1, 6});
  CHECK(levels.changes(5) == std::vector<int64_t>{1});
  for (const double degree : {1.0, 2.0}) {
    const Curriculum root({.min_difficulty = 8,
                           .max_difficulty = 100,
                           .schedule_type = "fixed_root",
                           .total_curriculum_step = 50,
                           .difficulty_step = 16,
                           .root_degree = degree});
    std::vector<int64_t> expected{1};
    for (int64_t step = 2; step <= 400; ++step) {
      CHECK(root.of_step(step) == root.at(step));
      if (root.at(step) != root.at(step - 1)) expected.push_back(step);
    }
    CAPTURE(degree);
    CHECK(root.changes(400) == expected);
    CHECK(root.of_step(400) == 100);
    CHECK(root.changes(INT64_MAX) == expected);
  }
}

TEST_CASE("a root needs a degree above 0 and steps from 0 on", "[data]") {
  const RootSchedule schedule{.min = 1, .max = 9, .steps = 5, .root_degree = 2};
  CHECK_THROWS_AS(schedule.at(-1), InternalError);
  CHECK_THROWS_AS((RootSchedule{.steps = 5, .root_degree = -1}).check("test"), ConfigError);
}

TEST_CASE("a step of random-LTD given twice is counted once", "[data]") {
  const TokenDropOptions options{.total_layers = 4,
                                 .dropping_layers = 2,
                                 .global_batch_size = 3,
                                 .min_value = 16,
                                 .max_value = 64,
                                 .require_steps = 4,
                                 .seq_per_step = 16};
  TokenDropSchedule schedule(options);
  schedule.update(0);
  schedule.update(0);
  CHECK(schedule.state().consumed_layer_tokens == 3 * (16 * 2 + 64 * 2));
  CHECK(total_layer_tokens(options, 1) == schedule.state().consumed_layer_tokens);
  CHECK_THROWS_AS(TokenDropSchedule({.total_layers = 2, .dropping_layers = 3}), ConfigError);
  CHECK_THROWS_AS(TokenDropSchedule({.total_layers = 2, .schedule_type = "fixed_root"}),
                  ConfigError);
  CHECK_THROWS_AS(TokenDropSchedule({.total_layers = 2, .layer_token_lr_schedule = true}),
                  Unsupported);
}
