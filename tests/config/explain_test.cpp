// explain on the documents' own examples (repaired where they are broken): every value that does
// not come from a default, with its origin. Two data-parallel ranks.
#include "config/explain/explain.h"

#include <fmt/format.h>

#include "core/status/error.h"
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

TEST_CASE("a key of several types is told as the type that is given has it", "[config]") {
  const std::string muon =
      explain_key(read_of(R"({"optimizer": {"type": "Muon"}})"), 1, "optimizer.params.lr");
  CHECK_THAT(muon, Catch::StartsWith("optimizer.params.lr = 0.02  (default)\n") &&
                       Catch::Contains("unless overridden by muon_lr") &&
                       Catch::Contains("\ndefault: 0.02\n") && !Catch::Contains("0.001"));
  const std::string llama =
      explain_key(read_of(R"({"model": {"family": "llama"}})"), 1, "model.vocab_size");
  CHECK_THAT(llama, Catch::Contains("default: 32000\n") && !Catch::Contains("50257"));
  const std::string bert =
      explain_key(read_of(R"({"model": {"family": "bert"}})"), 1, "model.vocab_size");
  CHECK_THAT(bert, Catch::Contains("default: 30522\n") && !Catch::Contains("50257"));
  const std::string decay = explain_key(read_of(R"({"scheduler": {"type": "WarmupDecayLR"}})"), 1,
                                        "scheduler.params.warmup_max_lr");
  CHECK_THAT(decay,
             Catch::Contains("\nPeak learning rate.\n") && Catch::Contains("\ndefault: 0.001\n"));
}

TEST_CASE("a key that the given type has not is told as the others have it", "[config]") {
  const std::string text =
      explain_key(read_of(R"({"optimizer": {"type": "Lion"}})"), 1, "optimizer.params.freeze_step");
  CHECK_THAT(text, Catch::StartsWith("optimizer.params.freeze_step has no value here (it exists "
                                     "where type is OneBitAdam or OneBitLamb)\n") &&
                       Catch::Contains("\n  Length, in optimizer steps, ") &&
                       Catch::Contains("where type is OneBitLamb\n") &&
                       Catch::Contains("\ntype: integer, >= 0\n") &&
                       Catch::Contains("\ndefault: 100000\n"));
}

TEST_CASE("without a configuration a key is told as each type has it", "[config]") {
  const std::string rate = describe_key("optimizer.params.lr");
  CHECK_THAT(rate,
             Catch::StartsWith("optimizer.params.lr (where type is Adam or AdamW or ") &&
                 Catch::Contains("\ntype: number, >= 0\n") &&
                 Catch::Contains("\ndefault:\n  0.001 where type is Adam or AdamW or MuAdam or ") &&
                 Catch::Contains("\n  0.01 where type is Adagrad or RMSprop\n") &&
                 Catch::Contains("\n  0.02 where type is Muon\n") &&
                 Catch::Contains("\nhere: used\n"));
  CHECK_THAT(
      describe_key("model.vocab_size"),
      Catch::Contains("\n  50257 where family is gpt2 or moe_gpt\n") &&
          Catch::Contains("\n  32000 where family is llama or mistral or granite or mixtral\n"));
  CHECK(describe_key("train.log_every").find("where") == std::string::npos);
  CHECK_THAT(describe_key("scheduler.params.cycle_min_lr"),
             Catch::Contains("\ndefault: none, it is required\n"));
  CHECK_THAT(describe_key("fp32_allreduce"), Catch::Contains("\nnow: communication_data_type\n"));
  CHECK_THROWS_WITH(describe_key("optimizer.parms.lr"),
                    Catch::Contains("did you mean optimizer.params.lr?"));
}

TEST_CASE("without a configuration a section is told with its keys", "[config]") {
  const std::string text = describe_key("checkpoint");
  CHECK_THAT(text, Catch::StartsWith("checkpoint\n\nCheckpoint behaviour.\n") &&
                       Catch::Contains("\ncheckpoint.load_universal ") &&
                       Catch::Contains("(boolean)\n"));
  CHECK_THAT(describe_key("scheduler"),
             Catch::Contains("(integer, >= 0; where type is WarmupLR)\n"));
}

TEST_CASE("an auto is shown as it is written, with what it is taken as", "[config]") {
  const std::string text = R"({"optimizer": {"type": "Muon", "params": {"lr": "auto"}},
 "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}},
 "train_batch_size": 32, "train_micro_batch_size_per_gpu": "auto",
 "train": {"copy_in_memory_every": "auto"}})";
  CHECK(row_of(text, 4, "optimizer.params.lr") == R"(0.02 (f:1:49: "auto", the default))");
  CHECK(row_of(text, 4, "scheduler.params.warmup_max_lr") ==
        R"(0.02 (f:2:64: "auto", the learning rate of the optimizer))");
  CHECK(row_of(text, 4, "train_micro_batch_size_per_gpu") ==
        R"(8 (f:3:60: "auto", derived: train_batch_size / data-parallel ranks / )"
        R"(accumulation steps = 32 / 4 / 1))");
  CHECK(row_of(text, 4, "train.copy_in_memory_every") ==
        R"(null (f:4:36: "auto", not given: save_in_memory_every))");
}

}  // namespace ds
