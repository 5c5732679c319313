#include "launcher/report/page/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::string metrics(int steps) {
  std::string out;
  for (int step = 1; step <= steps; ++step) {
    out +=
        fmt::format("{{\"step\": {}, \"loss\": {}, \"grad_norm\": null, \"tokens_per_s\": 10{}}}\n",
                    step, 1.0 / step, step == steps ? ", \"validation_loss\": 0.5" : "");
  }
  return out;
}

constexpr const char* kReport = R"({"exit_code": 0, "reason": "", "steps": 9, "seconds": 10,
 "restarts": 1, "goodput": {"share": 0.8, "productive_s": 8, "lost_s": 1, "other_s": 1},
 "ranks": [{"rank": 0, "host_bytes_peak": 2048, "results": {"seconds_per_step": 0.5}},
           {"rank": 1, "host_bytes_peak": 4096, "results": {"seconds_per_step": 0.7}}],
 "epochs": [{"epoch": 1, "world_size": 2, "steps": 4, "reason": "rank 1 was killed & <gone>"}]})";

size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("the page has curves, accounts and tables, and needs nothing beside itself",
          "[launcher]") {
  const std::string page =
      report_page({.name = "runs/one",
                   .metrics = metric_curves(metrics(20) + "{\"step\": 21, \"lo"),
                   .report = kReport,
                   .plan = R"({"seconds_per_step": 0.4, "ranks": [{"host_bytes_peak": 1024}]})"});
  for (const std::string_view said :
       {"<html lang=\"en\">", "<title>runs/one</title>", "80.0 % of the time trained steps",
        "validation: 0.5 at step 20", "steps trained again", "rank 1 was killed &amp; &lt;gone&gt;",
        "<th scope=\"row\">peak of the host</th><td>1.0 KiB</td><td>2.0 KiB</td>",
        "<th scope=\"row\">seconds per step</th><td>0.4</td><td>0.5</td>"}) {
    INFO(said);
    CHECK(page.find(said) != std::string::npos);
  }
  // The slowest first.
  CHECK(page.find("<th scope=\"row\">1</th><td>0.7</td>") <
        page.find("<th scope=\"row\">0</th><td>0.5</td>"));
  CHECK(count_of(page, "<figure>") == count_of(page, "role=\"img\" aria-label=\""));
  CHECK(page.find("<script") == std::string::npos);
  CHECK(count_of(page, "http") == count_of(page, "http://www.w3.org/2000/svg"));
}

TEST_CASE("the page says what is trained, on what, in which batches, and how", "[launcher]") {
  const std::string page = report_page(
      {.name = "r",
       .plan = R"({"world_size": 4, "device": "cpu", "parameters": 34688,
                   "mesh": {"pipe": 2, "data": 2, "sequence": 1}})",
       .config = R"({"model": {"family": "gpt2", "n_layer": 2, "folder": null, "resid_pdrop": 0.1},
"data": {"train": ["a.txt", "<b>.txt"], "validation": [], "validation_fraction": 0.2,
         "tokenizer": "byte", "sequence_length": 32},
"train": {"steps": 60, "epochs": null}, "train_batch_size": 8, "gradient_clipping": 1.0,
"optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.999]}},
"scheduler": {"type": null}, "fp16": {"enabled": false}, "bf16": {"enabled": true},
"zero_optimization": {"stage": 2}})"});
  for (const auto& [what, said] : std::initializer_list<std::pair<const char*, const char*>>{
           {"model", "gpt2, n_layer 2"},
           {"parameters", "34688"},
           {"training data", "a.txt, &lt;b&gt;.txt"},
           {"validation data", "0.2 of the training data"},
           {"tokens of a sample", "32"},
           {"batch", "train_batch_size 8"},
           {"steps", "60"},
           {"optimizer", "AdamW, lr 0.0003, betas 0.9, 0.999"},
           {"clipping", "1"},
           {"precision", "bf16"},
           {"ZeRO stage", "2"},
           {"where", "4 ranks on cpu, pipe 2, data 2"}}) {
    INFO(what);
    CHECK_THAT(page,
               Catch::Contains(fmt::format("<th scope=\"row\">{}</th><td>{}</td>", what, said)));
  }
  CHECK_THAT(page, Catch::Contains("<pre>{&quot;model&quot;: {&quot;family&quot;"));
  CHECK_THAT(report_page({.name = "r"}), !Catch::Contains("What is trained"));
  CHECK_THAT(report_page({.name = "r",
                          .plan = R"({"world_size": 1, "device": "cpu"})",
                          .config = R"({"model": {"family": "gpt2"}})"}),
             Catch::Contains("<td>1 rank on cpu</td>"));
}

TEST_CASE("restarts are marked in every curve, and told", "[launcher]") {
  std::string lines;
  for (int step = 1; step <= 30; ++step) {
    lines += fmt::format("{{\"step\": {}, \"loss\": 2.5, \"lr\": 0.5, \"generation\": {}}}\n", step,
                         step < 11   ? 1
                         : step < 21 ? 2
                                     : 4);
  }
  const std::string page = report_page({.name = "r", .metrics = metric_curves(lines)});
  CHECK(count_of(page, "class='mark'") == 4);
  CHECK(count_of(page, "; restarts at steps 11, 21</figcaption>") == 2);
  CHECK(count_of(report_page({.name = "r", .metrics = metric_curves(metrics(9))}),
                 "class='mark'") == 0);
}

TEST_CASE("what a report does not know is a dash on the page, not 0", "[launcher]") {
  const std::string page = report_page(
      {.name = "r", .report = R"({"exit_code": 137, "reason": "", "steps": null, "seconds": 1.5,
 "ranks": [{"rank": 0, "host_bytes_peak": null, "rss_bytes_peak": null}],
 "epochs": [{"epoch": 1, "world_size": 1, "steps": null, "reason": "killed"}]})"});
  CHECK_THAT(page, Catch::Contains("<p>Ended with exit code 137 after 1.5 s.</p>"));
  CHECK_THAT(page,
             Catch::Contains("<th scope=\"row\">0</th><td>-</td><td>-</td><td>-</td><td>-</td>"));
  CHECK_THAT(page, Catch::Contains("<td>1</td><td>-</td><td>killed</td>"));
}

TEST_CASE("the page tells where the first bad number was", "[launcher]") {
  const std::string page = report_page(
      {.name = "r",
       .report = R"({"exit_code": 77, "first_bad_number": {"step": 7, "words": "it is <nan>",
 "module": "h.1", "tensor": "output of mlp", "pass": "forward", "rank": 1, "micro_step": 0}})"});
  for (const std::string_view said :
       {"<h2>The first bad number</h2>", "it is &lt;nan&gt;",
        "<th scope=\"row\">tensor</th><td>output of mlp</td>",
        "<th scope=\"row\">step</th><td>7</td>", "<th scope=\"row\">micro-step</th><td>0</td>"}) {
    INFO(said);
    CHECK(page.find(said) != std::string::npos);
  }
  CHECK(report_page({.name = "r", .report = kReport}).find("bad number") == std::string::npos);
}

TEST_CASE("a page of a million steps is as large as one of a thousand", "[launcher]") {
  const std::string small = report_page({.name = "r", .metrics = metric_curves(metrics(1000))});
  const std::string large =
      report_page({.name = "r", .metrics = metric_curves(metrics(1'000'000))});
  CHECK(large.size() < 2 * small.size());
  CHECK(small.find("validation: 0.5 at step 1000,") != std::string::npos);
  CHECK(large.find("validation: 0.5 at step 1000000,") != std::string::npos);
}

TEST_CASE("curves of more steps than are kept have their ends, their means and an order",
          "[launcher]") {
  const MetricCurves curves = metric_curves(metrics(1'000'000));
  const std::vector<PlotPoint>& loss = curves.at("loss");
  CHECK(loss.size() <= MetricLines::kMostPoints + 2);
  CHECK(loss.size() >= MetricLines::kMostPoints / 2 - 1);
  CHECK(loss.front().x == 1);
  CHECK(loss.front().y == 1);
  CHECK(loss.back().x == 1'000'000);
  CHECK(std::ranges::is_sorted(loss, {}, &PlotPoint::x));
  CHECK(loss[1].x ==
        Approx((1 + loss[2].x - loss[1].x) / 2));  // the first stretch begins at step 1
  CHECK(std::isnan(curves.at("grad_norm")[1].y));
}

TEST_CASE("lines that are deep, and names that are no metrics, cost nothing", "[launcher]") {
  const std::string deep(200'000, '[');
  const MetricCurves curves =
      metric_curves(fmt::format("{}\n{}\n{}{}\n", deep, R"({"step": 1, "loss": 2, "who": 3})",
                                R"({"step": 2, "loss": )", deep));
  CHECK(curves.size() == 1);
  CHECK(curves.at("loss").size() == 1);
}

TEST_CASE("a page is made of any report, and nothing in it becomes markup", "[launcher]") {
  for (const std::string& deep :
       {std::string(200'000, '['), std::string("{\"a\": ") + std::string(200'000, '[')}) {
    CHECK_THROWS_AS(report_page({.name = "r", .report = deep}), DataError);
    CHECK_THROWS_AS(report_page({.name = "r", .plan = deep}), DataError);
  }
  // Whole, and as deep.
  CHECK_NOTHROW(report_page(
      {.name = "r",
       .report = "{\"ranks\": " + std::string(200'000, '[') + std::string(200'000, ']') + "}"}));
  const std::string bad = R"(</title><script>\"'x\u001b)";
  std::string report = R"({"exit_code": 1e308, "reason": "!", "seconds": -1e308, "steps": 1e308,
 "restarts": 1e308, "goodput": {"share": 1e308, "productive_s": 1e308, "lost_s": 1e308},
 "ranks": [{"rank": 1e308, "host_bytes_peak": 1e308, "results": {"seconds_per_step": 1e308}}],
 "epochs": [{"epoch": -1e308, "reason": "!"}],
 "first_bad_number": {"words": "!", "tensor": "!", "module": "!", "shape": "!", "step": 1e308}})";
  for (size_t at = report.find('!'); at != std::string::npos; at = report.find('!', at))
    report.replace(at, 1, bad);
  const std::string page =
      report_page({.name = "<script>\"'\x1b",
                   .metrics = metric_curves("{\"step\": 1e308, \"loss\": 1e308}\n"
                                            "{\"step\": 1e308, \"loss\": -1e308}\n"),
                   .report = report,
                   .plan = R"({"ranks": [{"host_bytes_peak": -1e308}]})"});
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find('\x1b') == std::string::npos);
  CHECK(count_of(page, "</title>") == 1);
  CHECK_THAT(page, Catch::Contains("&lt;/title&gt;&lt;script&gt;&quot;&#39;x\\u001b"));
}

TEST_CASE("a run that has only begun has a page", "[launcher]") {
  const std::string page = report_page({.name = "r"});
  CHECK(page.find("The run goes on") != std::string::npos);
  CHECK(page.find("No step has been trained yet") != std::string::npos);
  CHECK_THROWS_AS(report_page({.name = "r", .report = "[1]"}), DataError);
}

}  // namespace ds
