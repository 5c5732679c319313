// explain on the documents' own examples (repaired where they are broken): every value that does
// not come from a default, with its origin. Two data-parallel ranks.
#include "config/explain.h"

#include <fmt/format.h>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {

TEST_CASE("explain shows what the documents' examples set, and where", "[config]") {
  testing::run_golden("config/explain.txt", [](const std::string& command) {
    std::string out;
    const ReadConfig read = read_config_text(command, "f");
    for (const Problem& problem : read.problems.all()) out += problem.text() + "\n";
    for (const ExplainedValue& row : explain_all(read, 2)) {
      if (row.origin.starts_with("default")) continue;
      out += fmt::format("{} = {} ({})\n", row.path, row.value, row.origin);
    }
    return out;
  });
}

TEST_CASE("explain of one key says what it means and names the nearest key", "[config]") {
  const ReadConfig read = read_config_text("{\"zero_optimization\": {\"stage\": 2}}", "f");
  CHECK_THAT(explain_key(read, 1, "zero_optimization.stage"), Catch::Contains("= 2  (f:1:33)"));
  CHECK_THAT(explain_key(read, 1, "zero_optimization.max_live_parameters"),
             Catch::Contains("stage3_max_live_parameters = 1000000000  (default)"));
  CHECK_THAT(explain_key(read, 1, "zero_optimization.stage"), Catch::Contains("here: used\n"));
  CHECK_THAT(explain_key(read, 1, "zero_optimization.reduce_scatter"),
             Catch::Contains("here: always so: gradients are always reduced by reduce-scatter"));
  CHECK_THAT(explain_key(read, 1, "compile.deepcompile"), Catch::Contains("here: not yet\n"));
  CHECK_THROWS_WITH(explain_key(read, 1, "zero_optimization.stge"),
                    Catch::Contains("did you mean zero_optimization.stage?"));
}

namespace {

ReadConfig read_of(const std::string& text) { return read_config_text(text, "f"); }

// "value (origin)" of one row.
std::string row_of(const std::string& text, int64_t ranks, const std::string& path) {
  for (const ExplainedValue& row : explain_all(read_of(text), ranks)) {
    if (row.path == path) return row.value + " (" + row.origin + ")";
  }
  return "no such row";
}

}  // namespace

TEST_CASE("each corner of the batch says how it was derived", "[config]") {
  const std::string micro = "train_micro_batch_size_per_gpu";
  const std::string steps = "gradient_accumulation_steps";
  CHECK(row_of(R"({"train_batch_size": 32})", 4, micro) ==
        "8 (derived: train_batch_size / data-parallel ranks / accumulation steps = 32 / 4 / 1)");
  CHECK(row_of(R"({"train_batch_size": 32})", 4, steps) ==
        "1 (default: 1, since it cannot be inferred)");
  CHECK(row_of(R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2})", 4, steps) ==
        "4 (derived: train_batch_size / micro batch / data-parallel ranks = 32 / 2 / 4)");
  CHECK(row_of(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 3})", 4,
               "train_batch_size") ==
        "24 (derived: micro batch * accumulation steps * data-parallel ranks = 2 * 3 * 4)");
  CHECK(row_of(R"({"train_batch_size": 32})", 4, "train_batch_size") == "32 (f:1:22)");
}

TEST_CASE("batch sizes that are missing or do not agree say so at what is not given", "[config]") {
  CHECK_THAT(row_of("{}", 4, "train_batch_size"),
             Catch::Contains("a run needs this or train_micro_batch_size_per_gpu"));
  CHECK_THAT(row_of("{}", 4, "train_micro_batch_size_per_gpu"),
             Catch::Contains("a run needs this or train_batch_size"));
  CHECK(row_of("{}", 4, "gradient_accumulation_steps") ==
        "1 (default: 1, since it cannot be inferred)");
  const std::string text = R"({"train_batch_size": 33, "gradient_accumulation_steps": 2})";
  CHECK_THAT(row_of(text, 4, "train_micro_batch_size_per_gpu"),
             Catch::Contains("(not derived: batch sizes do not agree") &&
                 Catch::Contains("33 is no multiple of gradient_accumulation_steps 2 * 4"));
  CHECK(row_of(text, 4, "train_batch_size") == "33 (f:1:22)");
}

TEST_CASE("an elastic batch is told to come from elasticity", "[config]") {
  const std::string text =
      R"({"elasticity": {"enabled": true, "max_train_batch_size": 32, "version": 0.1,
                         "micro_batch_sizes": [4, 8], "max_gpus": 8}})";
  for (const char* key :
       {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    CHECK_THAT(row_of(text, 2, key),
               Catch::Contains("(derived: elasticity with 2 data-parallel ranks)"));
  }
  CHECK_THAT(row_of(text, 7, "train_batch_size"),
             Catch::Contains("not derived: elasticity: 7 is not a valid data-parallel size"));
}

TEST_CASE("the table shows sections that were given, and lists the others by name", "[config]") {
  const std::string text =
      explain_text(read_of(R"({"wandb": {"enabled": false, "project": "x"}})"), 1);
  CHECK_THAT(text, Catch::Contains("wandb.project") && Catch::Contains("(f:1:41)"));
  CHECK_THAT(text, Catch::Contains("train.steps") && Catch::Contains("zero_optimization.stage"));
  const size_t hidden = text.find("\nSections with defaults only: ");
  REQUIRE(hidden != std::string::npos);
  CHECK(text.find("tensorboard.", 0) == std::string::npos);
  CHECK(text.find("tensorboard", hidden) != std::string::npos);
  CHECK(text.find("wandb", hidden) == std::string::npos);
}

TEST_CASE("a section is explained by its rows, and rows of others stay out", "[config]") {
  const std::string text = explain_key(read_of("{}"), 1, "train");
  CHECK_THAT(text, Catch::Contains("train.steps") && Catch::Contains("train.seed"));
  CHECK_THAT(text, !Catch::Contains("train_batch_size ") && !Catch::Contains("type:"));
}

TEST_CASE("a key that has no value here says where it would have one", "[config]") {
  CHECK_THAT(explain_key(read_of("{}"), 1, "optimizer.params.freeze_step"),
             Catch::StartsWith("optimizer.params.freeze_step has no value here (it exists where "
                               "type is "));
}

TEST_CASE("of one key everything is told that fields() knows", "[config]") {
  const std::string text = explain_key(read_of("{}"), 1, "zero_optimization.stage");
  CHECK_THAT(text, Catch::Contains("zero_optimization.stage = 0  (default)\n") &&
                       Catch::Contains("\ntype: integer, >= 0, <= 3\n") &&
                       Catch::Contains("\ndefault: 0\n") && Catch::Contains("\nhere: used\n"));
  CHECK_THAT(explain_key(read_of("{}"), 1, "pipeline.stages"), Catch::Contains("\ndefault: "));
  CHECK_THROWS_WITH(explain_key(read_of("{}"), 1, "completely.unlike.anything.else"),
                    "explain: there is no key completely.unlike.anything.else");
}

TEST_CASE("values from the command line name it as their origin", "[config]") {
  const std::vector<std::string> overrides = {"train.steps=7"};
  const ReadConfig read = read_config_text("{}", "f", overrides);
  CHECK_THAT(explain_key(read, 1, "train.steps"),
             Catch::Contains("train.steps = 7  (command line: train.steps=7)"));
}

}  // namespace ds
