#include "launcher/show/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
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
        "<th scope=\"row\">host_bytes_peak</th><td>1.0 KiB</td><td>2.0 KiB</td>",
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
