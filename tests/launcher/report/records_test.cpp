// What is said at the end: failure line, report, words, picture.
#include <csignal>

#include "launcher/report/plot.h"
#include "launcher/report/report.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

RunRecord failed_record() {
  RunRecord record;
  record.host = "node1";
  record.epochs = {{1, 2, 12, "rank 1 was killed by signal 9 (Killed)"}};
  record.ranks.resize(2);
  record.ranks[1].signal = SIGKILL;
  record.last_step = {.step = 12, .values = {{"loss", 2.5}}};
  record.exit_code = 1;
  record.root_cause = Failure{1, Failure::Kind::kSignal, SIGKILL, Blame::kOwn, "", {}, 11};
  record.reason = describe(*record.root_cause);
  record.elapsed = std::chrono::seconds(90);
  return record;
}

}  // namespace

TEST_CASE("the failure line is JSON that names rank, step and last commit", "[launcher]") {
  RunRecord record = failed_record();
  CHECK(failure_line(record, FaultAction::kStop) ==
        R"j({"event": "fault", "code": 1, "rank": 1, "host": "node1", "step": 12, )j"
        R"j("last_committed": null, "action": "stop", )j"
        R"j("cause": "rank 1 was killed by signal 9 (Killed)"})j");
  record.last_commit.emplace().set_tag("global_step10");
  record.root_cause.reset();
  record.reason = "second Ctrl-C";
  CHECK_THAT(failure_line(record, FaultAction::kRestart),
             Catch::Contains(R"j("rank": null)j") && Catch::Contains(R"j("action": "restart")j") &&
                 Catch::Contains(R"j("last_committed": "global_step10")j") &&
                 Catch::Contains(R"j("cause": "second Ctrl-C")j"));
}

TEST_CASE("the report holds what was measured, per rank", "[launcher]") {
  RunRecord record = failed_record();
  record.ranks[0].exit_code = 0;
  control::Measured& measured = record.ranks[0].measured.emplace();
  measured.set_steps(12);
  measured.set_host_bytes_peak(1000);
  (*measured.mutable_categories())["parameters"] = 400;
  (*measured.mutable_categories())["gradients"] = 300;
  CHECK(
      report_json(record) ==
      R"j({"exit_code": 1, "reason": "rank 1 was killed by signal 9 (Killed)", "steps": 12, )j"
      R"j("seconds": 90, "host": "node1", "generation": 1, "restarts": 0, "world_size": 2, )j"
      R"j("loss": 2.5, )j"
      R"j("last_step": {"step": 12, "total_steps": null, "loss": 2.5, "grad_norm": null, )j"
      R"j("lr": null, "loss_scale": null, "tokens_per_s": null, "samples": null, )j"
      R"j("bytes_peak": null, "validation_loss": null, "skipped_steps": null, )j"
      R"j("epoch": null, "time": null, "generation": null, "sequence_length": null, )j"
      R"j("validation_accuracy": null, "loss_masked_lm": null, "loss_next_sentence": null, )j"
      R"j("reward_chosen": null, "reward_rejected": null, "reward_accuracy": null, )j"
      R"j("reward_margin": null, "validation_reward_accuracy": null, )j"
      R"j("validation_reward_margin": null, "loss_distillation": null, "loss_hidden": null, )j"
      R"j("step_s": null, "evaluation_s": null, "paused_s": null, "starting_s": null}, )j"
      R"j("goodput": {"share": 0, "productive_s": 0, "lost_s": 0, "evaluation_s": 0, )j"
      R"j("checkpoint_s": 0, "waiting_s": 0, "starting_s": 0, "other_s": 90}, )j"
      R"j("last_committed": null, "root_cause": {"rank": 1, "kind": "signal", "value": 9, )j"
      R"j("step": 11, "message": "rank 1 was killed by signal 9 (Killed)"}, "ranks": [)j"
      "\n  "
      R"j({"rank": 0, "exit_code": 0, "signal": null, "steps": 12, "device_bytes_peak": 0, )j"
      R"j("host_bytes_peak": 1000, "nvme_bytes": 0, "rss_bytes_peak": null, )j"
      R"j("categories": {"gradients": 300, "parameters": 400}},)j"
      "\n  "
      R"j({"rank": 1, "exit_code": null, "signal": 9, "steps": null, "device_bytes_peak": null, )j"
      R"j("host_bytes_peak": null, "nvme_bytes": null, "rss_bytes_peak": null, )j"
      R"j("categories": null})j"
      "\n], "
      R"j("generations": [)j"
      "\n  "
      R"j({"generation": 1, "world_size": 2, "steps": 12, "reason": )j"
      R"j("rank 1 was killed by signal 9 (Killed)"})j"
      "\n]}\n");
}

TEST_CASE(
    "a launch that goes on from the last step has done all steps; one that came to none, none",
    "[launcher]") {
  RunRecord record;
  record.ranks.resize(2);
  record.elapsed = std::chrono::seconds(2);
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  record.exit_code = 77;
  record.reason = "it says so";
  CHECK_THAT(report_json(record), Catch::Contains(R"("steps": null)"));
  CHECK_THAT(closing_text(record, run), Catch::StartsWith("ended before its first step after"));
  record.exit_code = 0;
  record.ranks[0].measured.emplace().set_steps(60);
  CHECK_THAT(report_json(record), Catch::Contains(R"("steps": 60,)"));
  CHECK_THAT(closing_text(record, run), Catch::StartsWith("done: 60 steps after"));
}

TEST_CASE("the report has the first bad number as the ranks said it", "[launcher]") {
  RunRecord record = failed_record();
  CHECK(report_json(record).find("first_bad_number") == std::string::npos);
  record.bad_number = R"({"step": 3})";
  CHECK(report_json(record).find(R"("first_bad_number": {"step": 3}, "ranks")") !=
        std::string::npos);
}

TEST_CASE("a failure is told with the rank's own words and its log", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  RunRecord record = failed_record();
  CHECK_THAT(failure_text(record, run), Catch::Contains("rank 1 was killed by signal 9") &&
                                            Catch::Contains("all 2 ranks were stopped") &&
                                            Catch::Contains("run/logs/rank-1.log"));
  record.root_cause = Failure{0, Failure::Kind::kExit, 65, Blame::kOwn, "bad token", {}, 0};
  CHECK_THAT(failure_text(record, run), Catch::StartsWith("rank 0: bad token"));
  record.root_cause.reset();
  CHECK(failure_text(record, run).empty());
}

TEST_CASE("the closing words name only what exists", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  RunRecord record;
  record.last_step.emplace().step = 7;
  record.elapsed = std::chrono::seconds(65);
  record.written = {"metrics.jsonl"};
  CHECK_THAT(closing_text(record, run), !Catch::Contains("model"));
  std::filesystem::create_directory(run.file("final"));
  CHECK(closing_text(record, run) ==
        "done: 7 steps after 1m05s\n"
        "  run         run\n"
        "  metrics     run/metrics.jsonl\n"
        "  model       run/final\n"
        "  logs        run/logs");
  record.exit_code = 75;
  record.reason = "Ctrl-C";
  CHECK_THAT(closing_text(record, run),
             Catch::Contains("stopped at step 7 after 1m05s and saved (Ctrl-C)") &&
                 Catch::Contains("the same command with --run-dir run"));
}

TEST_CASE("a failure is told once: the closing words give only its code", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  RunRecord record = failed_record();
  CHECK_THAT(closing_text(record, run),
             Catch::StartsWith("ended at step 12 after 1m30s with code 1\n"));
  record.root_cause.reset();
  record.exit_code = 130;
  record.reason = "second Ctrl-C";
  CHECK_THAT(closing_text(record, run),
             Catch::StartsWith("ended at step 12 after 1m30s with code 130 (second Ctrl-C)\n"));
}

TEST_CASE("the plot survives nothing, one point, flat lines and NaN", "[launcher]") {
  const double nan = std::nan("");
  using Points = std::vector<MetricsFile::Point>;
  for (const Points& points : {Points{}, Points{{1, 2.5}}, Points{{1, 2}, {2, 2}}, Points{{1, nan}},
                               Points{{1, 3}, {2, nan}, {3, 1}}, Points{{1, 1e300}, {2, -1e300}}}) {
    const std::string svg = loss_plot("a < b & c", points);
    CHECK_THAT(svg, Catch::StartsWith("<svg") && Catch::EndsWith("</svg>\n") &&
                        Catch::Contains("a &lt; b &amp; c") && !Catch::Contains("nan") &&
                        !Catch::Contains("inf"));
  }
}

TEST_CASE("a long run is thinned to what a screen can show", "[launcher]") {
  std::vector<MetricsFile::Point> points;
  for (int64_t s = 1; s <= 100000; ++s) {
    points.push_back({s, 1.0 / static_cast<double>(s)});
  }
  CHECK(loss_plot("long", points).size() < 20000);
}

TEST_CASE("the validation loss has a curve of its own and a legend", "[launcher]") {
  const std::string alone = loss_plot("run", {{1, 3.0}, {2, 2.0}});
  CHECK_THAT(alone, !Catch::Contains("validation"));
  const std::string both = loss_plot("run", {{1, 3.0}, {2, 2.5, 2.75}, {3, 2.25}, {4, 2.0, 4.0}});
  CHECK_THAT(both, Catch::Contains(">training</text>") && Catch::Contains(">validation</text>"));
  CHECK(std::ranges::count(both, 'M') == 2);
  // The highest value is one of the validation: the picture has room for it.
  CHECK_THAT(both, Catch::Contains("L704.0 32.0 "));
  // A single evaluation is a dot, since no line leads to it.
  CHECK_THAT(loss_plot("run", {{1, 3.0}, {2, 2.5, 2.75}}), Catch::Contains("<circle"));
  CHECK_THAT(loss_plot("run", {{1, 3.0, {}, 1}, {2, 2.5, {}, 1}}), !Catch::Contains("'mark'"));
  CHECK_THAT(loss_plot("run", {{1, 3.0, {}, 1}, {2, 2.5, {}, 2}}), Catch::Contains("'mark'"));
}

}  // namespace ds
