#include "launcher/report/progress.h"

#include "launcher/decide/text/json_text.h"
#include "launcher/process/machine.h"
#include "tests/support/catch.h"

namespace ds {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a step is one line", "[launcher]") {
  StepMetrics metrics{
      .step = 120,
      .total_steps = 2000,
      .values = {{"loss", 3.41234}, {"lr", 3e-4}, {"loss_scale", 1}, {"tokens_per_s", 12345}}};
  CHECK(step_line(metrics, std::nullopt) == "step 120/2000  loss 3.4123  lr 3.00e-04  12.3k tok/s");
  metrics.values.set("grad_norm", 1.234);
  metrics.values.set("loss_scale", 65536);
  metrics.values.set("bytes_peak", 412 << 20);
  metrics.values.set("validation_loss", 3.5);
  CHECK(step_line(metrics, seconds(192)) ==
        "step 120/2000  loss 3.4123  lr 3.00e-04  norm 1.23  scale 65536  12.3k tok/s  "
        "mem 412 MiB  validation loss 3.5000  ETA 3m12s");
}

TEST_CASE("a narrow terminal shows the time left, and of the rest what comes first", "[launcher]") {
  const StepMetrics metrics{.step = 120,
                            .total_steps = 2000,
                            .values = {{"loss", 3.41234}, {"lr", 3e-4}, {"tokens_per_s", 12345}}};
  const auto within = [&](size_t columns) {
    return step_line_within(metrics, seconds(192), columns);
  };
  const std::string all = "step 120/2000  loss 3.4123  lr 3.00e-04  12.3k tok/s  ETA 3m12s";
  CHECK(within(all.size()) == all);
  CHECK(within(all.size() - 1) == "step 120/2000  loss 3.4123  lr 3.00e-04  ETA 3m12s");
  CHECK(within(30) == "step 120/2000  ETA 3m12s");
  CHECK(within(0) == "step 120/2000  ETA 3m12s");
}

TEST_CASE("the last line keeps the losses, also of an evaluation that was earlier", "[launcher]") {
  const StepMetrics validated{.step = 100, .values = {{"validation_loss", 3.5}}};
  StepMetrics last{
      .step = 120, .total_steps = 120, .values = {{"loss", 3.25}, {"lr", 3e-4}, {"loss_scale", 1}}};
  CHECK(last_line(last, std::nullopt) == "step 120/120  loss 3.2500  lr 3.00e-04");
  CHECK_THAT(last_line(last, validated), Catch::EndsWith("  validation loss 3.5000 (step 100)"));
  last.values.set("validation_loss", 3.125);
  CHECK_THAT(last_line(last, validated), Catch::EndsWith("  validation loss 3.1250"));
}

TEST_CASE("sizes, times and rates are short", "[launcher]") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(412 << 20) == "412 MiB");
  CHECK(format_bytes(int64_t{3} << 40) == "3.0 TiB");
  CHECK(format_duration(milliseconds(340)) == "0.3s");
  CHECK(format_duration(seconds(42)) == "42s");
  CHECK(format_duration(seconds(192)) == "3m12s");
  CHECK(format_duration(seconds(7265)) == "2h01m");
  CHECK(format_rate(999) == "999");
  CHECK(format_rate(12345) == "12.3k");
  CHECK(format_rate(2.5e6) == "2.5M");
  CHECK(format_count(1, "rank") == "1 rank");
  CHECK(format_count(2, "rank") == "2 ranks");
}

TEST_CASE("the pace is known after two steps and follows a change of it", "[launcher]") {
  PaceEstimate pace;
  Time now = seconds(100);
  CHECK_FALSE(pace.update(now, 1, 101));
  now += seconds(1);
  CHECK(pace.update(now, 2, 101) == seconds(99));
  for (int64_t step = 3; step <= 60; ++step) {
    now += seconds(2);
    pace.update(now, step, 101);
  }
  const double left =
      std::chrono::duration<double>(*pace.update(now + seconds(2), 61, 101)).count();
  CHECK(left == Approx(80).epsilon(0.01));
  CHECK_FALSE(pace.update(now + seconds(4), 101, 101));
}

TEST_CASE("a long evaluation and reports that come in heaps hardly move the time to the end",
          "[launcher]") {
  PaceEstimate pace;
  Time now{};
  for (int64_t step = 1; step <= 4000; ++step) {
    if (step % 10 == 0) now += seconds(1);  // ten reports at once
    if (step % 400 == 0) now += seconds(4);
    const auto left = pace.update(now, step, 10000);
    if (step < 1000) continue;
    const double expected = static_cast<double>(10000 - step) * 0.11;
    CHECK(std::chrono::duration<double>(*left).count() == Approx(expected).epsilon(0.08));
  }
}

TEST_CASE("evaluations to come count, however rare they are", "[launcher]") {
  PaceEstimate pace;
  Time now{};
  std::optional<Time> left;
  for (int64_t step = 1; step <= 500; ++step) {
    now += seconds(1);
    const bool evaluates = step == 400;
    if (evaluates) now += seconds(60);
    left =
        pace.update(now, step, 1000, evaluates ? std::optional<Time>(seconds(60)) : std::nullopt);
    if (step == 399) CHECK(left == seconds(601));  // none has shown how long it takes
    if (step == 400) CHECK(left == seconds(600 + 2 * 60));
  }
  CHECK(left == seconds(500 + 2 * 60));  // after step 800, and after the last
  for (int64_t step = 501; step <= 801; ++step) {
    now += seconds(1);
    const bool evaluates = step == 800;
    if (evaluates) now += seconds(30);
    left =
        pace.update(now, step, 1000, evaluates ? std::optional<Time>(seconds(30)) : std::nullopt);
  }
  CHECK(left == seconds(199 + 30));
}

TEST_CASE("on a terminal is seen what a rank does that makes no steps", "[launcher]") {
  const StepMetrics last{.step = 400, .total_steps = 2000};
  const auto line = [&](std::string phase, int64_t count, bool began = true) {
    return phase_line({.step = 400, .micro_step = count, .phase = std::move(phase)},
                      began ? std::optional(last) : std::nullopt);
  };
  CHECK(line("evaluate", 12) == "step 400/2000  evaluating, batch 12");
  CHECK(line("sample", 7) == "step 400/2000  going on with the prompt, token 7");
  CHECK(line("save", 0) == "step 400/2000  saving");
  CHECK(line("tokenize", 40, false) == "tokenizing, MiB 40");
  CHECK(line("load", 0, false) == "loading");
  CHECK(line("load", 300, false) == "loading, MiB 300");
  CHECK(line("save", 7) == "step 400/2000  saving, MiB 7");
  CHECK(line("export", 1) == "step 400/2000  writing the model, MiB 1");
  const auto known = [&](std::string phase, int64_t count, int64_t total) {
    return phase_line({.step = 400, .micro_step = count, .phase = std::move(phase), .total = total},
                      last);
  };
  CHECK(known("evaluate", 12, 40) == "step 400/2000  evaluating, batch 12 of 40");
  CHECK(known("save", 0, 40) == "step 400/2000  saving");
  CHECK(known("save", 40, 40) == "step 400/2000  saving, MiB 40 of 40");
  CHECK(known("save", 41, 40) == "step 400/2000  saving, MiB 41");  // beside numbers stand words
  CHECK_FALSE(line("train", 3));
  CHECK_FALSE(line("", 0, false));
}

TEST_CASE("an epoch that begins further back has a pace of its own", "[launcher]") {
  PaceEstimate pace;
  for (int64_t step = 1; step <= 50; ++step) pace.update(seconds(step), step, 100);
  CHECK_FALSE(pace.update(seconds(1000), 41, 100));
  CHECK(pace.update(seconds(1002), 42, 100) == seconds(116));
}

TEST_CASE("a batch log shows every n-th step, the first, the last, and one in 10 s", "[launcher]") {
  PrintPolicy policy(10);
  CHECK(policy.wants(seconds(0), 1, 100));
  CHECK_FALSE(policy.wants(seconds(1), 2, 100));
  CHECK(policy.wants(seconds(2), 10, 100));
  CHECK_FALSE(policy.wants(seconds(11), 11, 100));
  CHECK(policy.wants(seconds(12), 12, 100));
  CHECK(policy.wants(seconds(13), 100, 100));
  PrintPolicy sparse(0);
  CHECK(sparse.wants(seconds(0), 7, 100));
  CHECK_FALSE(sparse.wants(seconds(9), 10, 100));
}

TEST_CASE("ranks and threads share the cores", "[launcher]") {
  const auto shape = [](Machine machine, std::optional<int> ranks, std::optional<int> threads) {
    const WorldShape out = choose_shape(machine, ranks, threads);
    return std::pair(out.ranks, out.threads);
  };
  const std::optional<int> any;
  CHECK(shape({1, 0}, any, any) == std::pair(1, 1));
  CHECK(shape({2, 0}, any, any) == std::pair(2, 1));
  CHECK(shape({3, 0}, any, any) == std::pair(2, 1));
  CHECK(shape({4, 0}, any, any) == std::pair(2, 2));
  CHECK(shape({16, 0}, any, any) == std::pair(8, 2));
  CHECK(shape({16, 4}, any, any) == std::pair(4, 4));
  CHECK(shape({4, 0}, 8, any) == std::pair(8, 1));
  CHECK(shape({4, 0}, 1, any) == std::pair(1, 4));
  CHECK(shape({4, 0}, 1, 2) == std::pair(1, 2));
  CHECK(this_machine(nullptr).cores >= 1);
  CHECK(this_machine("").gpus == 0);
}

TEST_CASE("json strings are escaped and numbers are exact", "[launcher]") {
  CHECK(json_string("a\"b\\c\nd\x01") == R"("a\"b\\c\nd\u0001")");
  CHECK(json_string("caf\xC3\xA9 \xE9t\xC3\n") ==
        "\"caf\xC3\xA9 \xEF\xBF\xBDt\xEF\xBF\xBD\\n\"");  // what is no UTF-8 is no JSON
  CHECK(json_number(3) == "3");
  CHECK(json_number(-0.5) == "-0.5");
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(1e300) == "1e+300");
  CHECK(json_number(std::nan("")) == "null");
  CHECK(json_number(-INFINITY) == "null");
  CHECK(JsonObject().str() == "{}");
  CHECK(JsonObject().integer("a", 1).text("b", "x").number("c", std::nullopt).str() ==
        R"({"a": 1, "b": "x", "c": null})");
}

}  // namespace ds
