#include "train/watch/step_note.h"

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("a step is said again as it was said", "[train]") {
  StepMetrics said{.step = 7,
                   .total_steps = 9,
                   .loss = 0.1 + 0.2,
                   .grad_norm = 1.0 / 3,
                   .lr = 1e-300,
                   .loss_scale = 65536,
                   .tokens_per_s = 12345.678,
                   .samples = int64_t{1} << 60,
                   .bytes_peak = 17,
                   .validation_loss = std::nullopt};
  for (const std::optional<double> validation : {std::optional<double>(), std::optional(5.5)}) {
    said.validation_loss = validation;
    StepMetrics before = said;
    before.step = 6;
    const std::vector<StepMetrics> both = read_step_notes(to_notes(std::vector{before, said}));
    REQUIRE(both.size() == 2);
    CHECK(both[0].step == 6);
    const StepMetrics& read = both[1];
    CHECK(read.step == 7);
    CHECK(read.total_steps == 9);
    CHECK(read.loss == said.loss);
    CHECK(read.grad_norm == said.grad_norm);
    CHECK(read.lr == said.lr);
    CHECK(read.loss_scale == said.loss_scale);
    CHECK(read.tokens_per_s == said.tokens_per_s);
    CHECK(read.samples == said.samples);
    CHECK(read.bytes_peak == 17);
    CHECK(read.validation_loss == validation);
  }
  CHECK(read_step_notes("").empty());
  for (const char* wrong : {"\n", "[]", "{}", R"({"step": 7})", R"({"step": "7"})"}) {
    CHECK_THROWS_AS(read_step_notes(wrong), ValidationError);
  }
}
