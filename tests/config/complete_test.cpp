// What a training run needs and does not find in its configuration.
#include <fmt/format.h>

#include "config/available.h"
#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

TEST_CASE("what is needed to train is asked for at once, and by name", "[config]") {
  const auto missing = [](const std::string& text) {
    ReadConfig read = read_config_text(text, "f");
    read.problems = {};
    check_complete(read);
    std::string out;
    for (const Problem& problem : read.problems.all()) out += problem.path + " ";
    return out;
  };
  CHECK(missing("{}") == "model data.train train.steps optimizer train_batch_size ");
  const std::string whole =
      R"("model": {"family": "gpt2"}, "data": {"train": ["a"]}, "optimizer": {"type": "Adam"},
         "train_batch_size": 8)";
  CHECK(missing("{" + whole + R"(, "train": {"steps": 5}})").empty());
  CHECK(missing("{" + whole + R"(, "train": {"epochs": 1}})").empty());
  for (const char* type : {"WarmupDecayLR", "WarmupCosineLR"}) {
    const std::string scheduler =
        fmt::format(R"(, "scheduler": {{"type": "{}"}}, "train": )", type);
    CHECK(missing("{" + whole + scheduler + R"({"epochs": 1}})") ==
          "scheduler.params.total_num_steps ");
    CHECK(missing("{" + whole + scheduler + R"({"steps": 5}})").empty());
  }
  CHECK(missing(R"({"model": "m", "data": {"train": ["a"]}, "optimizer": {"type": "Adam"},
                    "train": {"steps": 1}, "elasticity": {"enabled": true}})")
            .empty());
}

TEST_CASE("a number that is left to another program is asked for where it stands", "[config]") {
  ReadConfig read = read_config_text(R"({"train_batch_size": "auto", "model": {"family": "gpt2"},
      "data": {"train": ["a"]}, "train": {"steps": 1}, "optimizer": {"type": "Adam"}})",
                                     "f");
  REQUIRE_FALSE(read.problems.has_errors());
  check_complete(read);
  CHECK_THROWS_WITH(read.problems.throw_if_any(),
                    Catch::StartsWith("f:1:22: train_batch_size: is needed to train") &&
                        Catch::Contains("\"auto\" is for a program that puts a number there"));
}

TEST_CASE("what was refused is not asked for again", "[config]") {
  ReadConfig read = read_config_text(R"({"train_batch_size": "many", "model": {"family": "gpt2"},
      "data": {"train": 5}, "train": {"steps": 1}, "optimizer": {"type": "Adamm"}})",
                                     "f");
  const size_t refused = read.problems.all().size();
  check_complete(read);
  CHECK(read.problems.all().size() == refused);
}

TEST_CASE("a file with a model, data or a length is a run, one of DeepSpeed alone is not",
          "[config]") {
  const auto is_run = [](const char* text) { return describes_run(read_config_text(text, "f")); };
  CHECK(is_run(R"({"model": "m"})"));
  CHECK(is_run(R"({"data": {"train": ["a"]}})"));
  CHECK(is_run(R"({"train": {"steps": 5}})"));
  CHECK_FALSE(is_run(R"({"train_batch_size": 8, "optimizer": {"type": "Adam"}})"));
}

}  // namespace ds
