#include "train/measure/step_note.h"

#include <limits>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("a step is said again as it was said", "[train]") {
  StepMetrics said{.step = 7,
                   .total_steps = 9,
                   .values = {{"loss", 0.1 + 0.2},
                              {"grad_norm", 1.0 / 3},
                              {"lr", 1e-300},
                              {"loss_scale", 65536},
                              {"tokens_per_s", 12345.678},
                              {"samples", 0x1p53},
                              {"bytes_peak", 17}}};
  for (const bool validated : {false, true}) {
    if (validated) said.values.set("validation_loss", 5.5);
    StepMetrics before = said;
    before.step = 6;
    const std::vector<StepMetrics> both = read_step_notes(to_notes(std::vector{before, said}));
    REQUIRE(both.size() == 2);
    CHECK(both[0].step == 6);
    CHECK(both[1].step == 7);
    CHECK(both[1].total_steps == 9);
    for (const MetricRow& row : metric_table()) {
      CAPTURE(row.name);
      CHECK(both[1].values.has(row.name) == said.values.has(row.name));
      CHECK(both[1].values.find(row) == said.values.find(row));
    }
  }
  CHECK(read_step_notes("").empty());
}

// A loss scale skips steps whose gradients are infinite.
TEST_CASE("a number that is not finite is none in the note", "[train]") {
  const StepMetrics said{.step = 1,
                         .total_steps = 2,
                         .values = {{"loss", 0.5},
                                    {"grad_norm", std::numeric_limits<double>::infinity()},
                                    {"skipped_steps", 1}}};
  const std::vector<StepMetrics> read = read_step_notes(to_notes(std::vector{said}));
  REQUIRE(read.size() == 1);
  CHECK_FALSE(read[0].values.has("grad_norm"));
  CHECK(read[0].values.at("loss") == 0.5);
  CHECK(read[0].values.at("skipped_steps") == 1);
}

TEST_CASE("notes of other builds are read, what is no note is refused", "[train]") {
  // As they were written before metrics were a table.
  const std::vector<StepMetrics> old = read_step_notes(
      R"({"step": 3, "total_steps": 4, "loss": 1.5, "lr": 1, "loss_scale": 1, "tokens_per_s": 2, )"
      R"("samples": 24, "bytes_peak": 5, "grad_norm": 0.5})");
  REQUIRE(old.size() == 1);
  CHECK(old[0].values.find("loss") == 1.5);
  CHECK(old[0].values.find("samples") == 24);
  CHECK(old[0].values.find("grad_norm") == 0.5);
  const auto newer = read_step_notes(R"({"step": 3, "total_steps": 4, "loss": 2, "entropy": 7})");
  CHECK(newer.at(0).values.find("loss") == 2);
  for (const char* wrong : {"\n", "[]", "{}", R"({"step": 7})", R"({"step": "7"})",
                            R"({"step": 7, "total_steps": 9, "loss": "1"})",
                            R"({"step": 7, "total_steps": 9, "samples": 1.5})"}) {
    CHECK_THROWS_AS(read_step_notes(wrong), ValidationError);
  }
}
