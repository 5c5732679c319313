#include "launcher/show/report_page.h"

#include <fmt/format.h>

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
                   .metrics = metrics(20) + "{\"step\": 21, \"lo",
                   .report = kReport,
                   .plan = R"({"seconds_per_step": 0.4, "ranks": [{"host_bytes_peak": 1024}]})"});
  for (const std::string_view said :
       {"<html lang=\"en\">", "<title>runs/one</title>", "80.0 % of the time trained steps",
        "validation: 0.5 at step 20", "steps trained again", "rank 1 was killed &amp; &lt;gone>",
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
       {"<h2>The first bad number</h2>", "it is &lt;nan>",
        "<th scope=\"row\">tensor</th><td>output of mlp</td>",
        "<th scope=\"row\">step</th><td>7</td>", "<th scope=\"row\">micro-step</th><td>0</td>"}) {
    INFO(said);
    CHECK(page.find(said) != std::string::npos);
  }
  CHECK(report_page({.name = "r", .report = kReport}).find("bad number") == std::string::npos);
}

TEST_CASE("a page of a million steps is as large as one of a thousand", "[launcher]") {
  const std::string small = report_page({.name = "r", .metrics = metrics(1000)});
  const std::string large = report_page({.name = "r", .metrics = metrics(1'000'000)});
  CHECK(large.size() < 2 * small.size());
  CHECK(small.find("validation: 0.5 at step 1000,") != std::string::npos);
  CHECK(large.find("validation: 0.5 at step 1000000,") != std::string::npos);
}

TEST_CASE("a run that has only begun has a page", "[launcher]") {
  const std::string page = report_page({.name = "r"});
  CHECK(page.find("The run goes on") != std::string::npos);
  CHECK(page.find("No step has been trained yet") != std::string::npos);
  CHECK_THROWS_AS(report_page({.name = "r", .report = "[1]"}), DataError);
}

}  // namespace ds
