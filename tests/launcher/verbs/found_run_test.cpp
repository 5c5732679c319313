// Runs as they are found from outside: alive, ended in every way, or not there; and the verbs that
// show them.
#include "launcher/verbs/found_run.h"

#include <sys/stat.h>

#include <fstream>

#include "core/status/error.h"
#include "launcher/process/files/run_directory.h"
#include "launcher/process/run_lease.h"
#include "launcher/verbs/watch/watch.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"
#include "tests/support/files/working_directory.h"
#include "tests/support/kept_signal_mask.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// A directory in which a launcher has worked, or works.
class RunOnDisk {
 public:
  RunOnDisk() { fs::create_directories(path() / "logs"); }
  fs::path path() const { return here_.path() / "run"; }
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((path() / name).parent_path());
    std::ofstream(path() / name, std::ios::binary) << text;
  }
  void launched_and_ended(std::optional<int> exit_code) const {
    RunLease::take(path(), {}).end(exit_code);
  }

 private:
  testing::TemporaryDirectory here_;
};

TailOptions tail_of(const RunOnDisk& run) {
  TailOptions options;
  options.run = run.path().string();
  return options;
}

const std::string kReport =
    R"({"exit_code": 0, "reason": "every rank is done", "steps": 9, "seconds": 2.5, "host": "h",
        "epoch": 3, "restarts": 1, "world_size": 2, "loss": 1.5,
        "last_committed": {"tag": "global_step9", "step": 9}, "root_cause": null, "ranks": [],
        "epochs": []})";

}  // namespace

TEST_CASE("where there is no run, every verb says so and what to name", "[launcher]") {
  const testing::TemporaryDirectory here;
  const std::string path = here.path().string();
  CHECK_THROWS_AS(find_status(here.path()), InputMissing);
  CHECK_THROWS_WITH(find_status(here.path()), Catch::StartsWith("no run in " + path));
  CHECK_THROWS_AS(ask_running(here.path(), {.verb = ControlVerb::kStop}), InputMissing);
  CHECK_THROWS_AS(rank_logs(here.path()), InputMissing);
  CHECK_THROWS_AS(run_status({.run = path}), InputMissing);
  CHECK_THROWS_AS(run_ctl({.order = "stop", .run = path}), InputMissing);
  CHECK_THROWS_AS(run_ctl({.order = "dance", .run = path}), UsageError);
}

TEST_CASE("a run that wrote its report is what the report says", "[launcher]") {
  const RunOnDisk run;
  run.launched_and_ended(0);
  run.put("config.json", "{}");
  run.put("report.json", kReport);
  const RunStatus status = find_status(run.path());
  CHECK(status.phase == "done");
  CHECK(status.exit_code == 0);
  CHECK(status.generation == 3);
  CHECK(status.restarts == 1);
  CHECK(status.last_step->step == 9);
  CHECK(status.last_commit->tag() == "global_step9");
  CHECK_FALSE(status.live());
  CHECK(code_of(status) == 0);
}

TEST_CASE("the report of an earlier launch says nothing of the last one", "[launcher]") {
  const RunOnDisk run;
  run.put("report.json", kReport);
  run.put("config.json", "{}");
  run.launched_and_ended({});
  const auto earlier = fs::last_write_time(run.path() / "config.json") - std::chrono::hours(1);
  fs::last_write_time(run.path() / "report.json", earlier);
  const RunStatus status = find_status(run.path());
  CHECK(status.phase == "killed");
  CHECK_FALSE(status.exit_code);
}

TEST_CASE("a run whose report could not be written is known by its lease", "[launcher]") {
  struct Case {
    int exit_code;
    std::string phase;
    int code_of_status;
  };
  for (const Case& expected : {Case{0, "done", 0}, Case{75, "stopped", 0}, Case{74, "failed", 1},
                               Case{139, "failed", 1}}) {
    const RunOnDisk run;
    run.launched_and_ended(expected.exit_code);
    const RunStatus status = find_status(run.path());
    CHECK(status.phase == expected.phase);
    CHECK(status.exit_code == expected.exit_code);
    CHECK_THAT(status.reason, Catch::Contains("its report could not be written"));
    CHECK(code_of(status) == expected.code_of_status);
  }
}

TEST_CASE("a run that was killed says how to go on, and from where", "[launcher]") {
  const RunOnDisk run;
  const RunStatus nothing = find_status(run.path());
  CHECK(nothing.phase == "killed");
  CHECK_THAT(nothing.reason, Catch::EndsWith("; nothing is saved: start it again with --run-dir " +
                                             run.path().string()));
  CHECK(code_of(nothing) == 1);
  run.put("checkpoints/latest", "global_step120\n");
  const RunStatus saved = find_status(run.path());
  CHECK(saved.last_commit->tag() == "global_step120");
  CHECK(saved.last_commit->step() == 120);
  CHECK_THAT(saved.reason, Catch::EndsWith("goes on from global_step120"));
  CHECK_THROWS_WITH(ask_running(run.path(), {.verb = ControlVerb::kStop}),
                    Catch::Contains("does not run any more: killed (dslaunch ended without"));
}

TEST_CASE("a run that was killed is known by its last metrics and its newest generation",
          "[launcher]") {
  const RunOnDisk run;
  run.put("logs/epoch.3", "x\n");
  run.put("metrics.jsonl",
          "{\"step\": 4, \"loss\": 2.5, \"lr\": 0.5, \"samples\": 32}\n{\"step\": 5, \"lo");
  const RunStatus status = find_status(run.path());
  CHECK(status.phase == "killed");
  CHECK(status.generation == 3);
  CHECK_FALSE(status.restarts);
  CHECK_FALSE(status.elapsed_s);
  REQUIRE(status.last_step);
  CHECK(status.last_step->step == 4);
  CHECK(status.last_step->values.at("lr") == 0.5);
  CHECK(status.last_step->values.at("samples") == 32);
}

TEST_CASE("a run that goes on and cannot be asked from here is not taken for dead", "[launcher]") {
  const RunOnDisk run;
  run.put("report.json", kReport);  // of the launch before
  const RunLease lease = RunLease::take(run.path(), {});
  const RunStatus status = find_status(run.path());
  CHECK(status.phase == "running");
  CHECK(status.launcher_pid == getpid());
  CHECK(code_of(status) == 0);
  CHECK_THAT(status.reason, Catch::Contains("from here it cannot be asked"));
  try {
    ask_running(run.path(), {.verb = ControlVerb::kStop});
    FAIL("it was asked");
  } catch (const Error& refused) {
    CHECK(refused.exit_code() == ExitCode::kClusterUnusable);
  }
}

TEST_CASE("runs/latest is the newest run, unless another one goes on", "[launcher]") {
  const testing::TemporaryDirectory here;
  const testing::WorkingDirectory stand(here.path());
  for (const char* name : {"runs/a", "runs/b", "runs/c"})
    fs::create_directories(fs::path(name) / "logs");
  fs::create_directory_symlink("a", "runs/latest");
  CHECK(meant_run("runs/latest") == "runs/latest");  // nothing goes on: that one has ended
  {
    const RunLease b = RunLease::take("runs/b", {});
    CHECK(meant_run("runs/latest") == "runs/b");
    CHECK(meant_run("runs/c") == "runs/c");  // whoever names one means it
    const RunLease c = RunLease::take("runs/c", {});
    CHECK_THROWS_AS(meant_run("runs/latest"), UsageError);
    CHECK_THROWS_WITH(meant_run("runs/latest"),
                      "2 runs go on here (runs/b, runs/c): name one of them");
    const RunLease a = RunLease::take("runs/a", {});
    CHECK(meant_run("runs/latest") == "runs/latest");
  }
  CHECK(meant_run("runs/latest") == "runs/latest");
}

TEST_CASE("the logs of ranks are found by their names, and nothing else is taken for one",
          "[launcher]") {
  const RunOnDisk run;
  for (const char* name : {"rank-0.log", "rank-11.log", "rank-x.log", "rank-1.txt", "rank-1a.log",
                           "dslaunch.log", "samples-rank-0.jsonl"})
    run.put(std::string("logs/") + name, "");
  const std::map<int, fs::path> logs = rank_logs(run.path());
  REQUIRE(logs.size() == 2);
  CHECK(logs.at(0).filename() == "rank-0.log");
  CHECK(logs.at(11).filename() == "rank-11.log");
}

TEST_CASE("a file has a size if it is there", "[launcher]") {
  const RunOnDisk run;
  run.put("file", "0123456789");
  CHECK(size_of_file(run.path() / "file") == 10);
  CHECK(size_of_file(run.path() / "missing") == 0);
}

TEST_CASE("files of a run that are pipes or devices are errors that name them, or passed over",
          "[launcher]") {
  const RunOnDisk run;
  run.launched_and_ended({});
  fs::create_directories(run.path() / "checkpoints");
  fs::create_symlink("/dev/zero", run.path() / "checkpoints/latest");
  CHECK_THAT(find_status(run.path()).reason,
             Catch::Contains("what it saved last is not known") &&
                 Catch::Contains("checkpoints/latest: it is a device, not a regular file"));
  REQUIRE(mkfifo((run.path() / "report.json").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(find_status(run.path()), Catch::Contains("report.json: it is a FIFO"));
  REQUIRE(mkfifo((run.path() / "logs/rank-0.log").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(run_tail(tail_of(run)), Catch::Contains("rank-0.log: it is a FIFO"));
  fs::create_symlink("/dev/zero", run.path() / "metrics.jsonl");
  CHECK_THROWS_WITH(run_curves(run.path()), Catch::Contains("metrics.jsonl: it is a device"));
}

TEST_CASE("a report that is deep or no JSON is an error that names it", "[launcher]") {
  const RunOnDisk run;
  run.launched_and_ended({});
  for (const std::string& text :
       {std::string(200'000, '['), std::string("{\"exit_code\": \"x\"}")}) {
    run.put("report.json", text);
    CHECK_THROWS_WITH(find_status(run.path()),
                      Catch::StartsWith((run.path() / "report.json").string() + ": "));
    CHECK_FALSE(report_has(text, "root_cause"));
  }
}

TEST_CASE("the newest steps of a run are read from the end of its metrics", "[launcher]") {
  const RunOnDisk run;
  CHECK(recent_curves(run.path()).empty());
  std::string lines;
  for (int step = 1; step <= 20000; ++step) {
    lines += fmt::format("{{\"step\": {}, \"loss\": {}}}\n", step, 20001 - step);
  }
  run.put("metrics.jsonl", lines + R"({"step": 20001, "lo)");
  const std::vector<PlotPoint> loss = recent_curves(run.path()).at("loss");
  CHECK(loss.back().x == 20000);
  CHECK(loss.back().y == 1);
  CHECK(loss.front().x > 1000);
  CHECK(loss.front().x + static_cast<double>(loss.size()) == 20001);
  CHECK(loss.size() > 1000);
  run.put("metrics.jsonl", lines.substr(0, 60));
  CHECK(recent_curves(run.path()).at("loss").front().x == 1);
  fs::remove(run.path() / "metrics.jsonl");
  REQUIRE(mkfifo((run.path() / "metrics.jsonl").c_str(), 0600) == 0);
  CHECK_THROWS_AS(recent_curves(run.path()), DataError);
}

TEST_CASE("what verbs print of a run steers no terminal", "[launcher]") {
  const RunOnDisk run;
  run.launched_and_ended(0);
  std::string report = kReport;
  report.replace(report.find("every"), 5, R"(\u001b]0;x\u0007\u202e)");
  run.put("report.json", report);
  run.put("logs/rank-0.log",
          "a\x1b[2J\x9b"
          "31mb\n");
  const std::string said = testing::printed_by([&] {
                             run_status({.run = run.path().string()});
                             run_tail(tail_of(run));
                           }).out;
  CHECK_THAT(said, Catch::Contains("\\u001b]0;x\\u0007\\u202e rank is done"));
  CHECK_THAT(said, Catch::Contains("a\\u001b[2J\xEF\xBF\xBD"
                                   "31mb\n"));
}

TEST_CASE("status is shown to people, to programs and to Prometheus, with a code for scripts",
          "[launcher]") {
  const RunOnDisk run;
  run.put("config.json", "{}");
  run.put("report.json", kReport);
  StatusOptions options{.run = run.path().string()};
  int code = -1;
  const auto shown = [&] { return testing::printed_by([&] { code = run_status(options); }).out; };
  CHECK_THAT(shown(), Catch::Contains("done with code 0") && Catch::Contains("step 9"));
  CHECK(code == 0);
  options.json = true;
  const RunStatus read = parse_status(shown());
  CHECK(read.phase == "done");
  CHECK(read.last_commit->tag() == "global_step9");
  options.json = false;
  options.prometheus = true;
  CHECK_THAT(shown(), Catch::Contains("dslaunch_step{run=\"run\"} 9"));
  fs::remove(run.path() / "report.json");
  shown();
  CHECK(code == 1);
}

TEST_CASE("tail shows the last lines of all ranks, in order, each once", "[launcher]") {
  const RunOnDisk run;
  run.put("logs/rank-0.log", "12:00:00.000 info: begins\n12:00:02.000 info: loaded\n  a detail\n");
  run.put("logs/rank-1.log", "12:00:01.000 info: alone\n12:00:02.500 info: loaded\n");
  TailOptions options = tail_of(run);
  const auto shown = [&] { return testing::printed_by([&] { run_tail(options); }).out; };
  CHECK(shown() ==
        "[0] 12:00:00.000 info: begins\n"
        "[1] 12:00:01.000 info: alone\n"
        "[0-1] 12:00:02.000 info: loaded\n"
        "[0]   a detail\n");
  options.lines = 1;
  CHECK(shown() == "[0]   a detail\n[1] 12:00:02.500 info: loaded\n");
  options.rank = 1;
  options.lines = 20;
  CHECK(shown() == "[1] 12:00:01.000 info: alone\n[1] 12:00:02.500 info: loaded\n");
  options.json = true;
  options.lines = 1;
  CHECK(shown() == "{\"ranks\": [1], \"time\": \"12:00:02.500\", \"text\": \"info: loaded\"}\n");
}

TEST_CASE("tail shows a last line that has no end, as a rank leaves that dies while it writes",
          "[launcher]") {
  const RunOnDisk run;
  run.put("logs/rank-0.log", "12:00:00.000 info: begins\n12:00:01.000 info: the la");
  const TailOptions options = tail_of(run);
  CHECK(testing::printed_by([&] { run_tail(options); }).out ==
        "[0] 12:00:00.000 info: begins\n[0] 12:00:01.000 info: the la\n");
}

TEST_CASE("tail that follows a run which is over shows all of it and ends", "[launcher]") {
  const RunOnDisk run;
  run.launched_and_ended(0);
  run.put("logs/rank-0.log", "begins\nthe la");
  TailOptions options = tail_of(run);
  options.follow = true;
  const testing::KeptSignalMask mask;
  CHECK(testing::printed_by([&] { run_tail(options); }).out == "[0] begins\n[0] the la\n");
}

TEST_CASE("tail of a rank that has no log says which", "[launcher]") {
  const RunOnDisk run;
  TailOptions options = tail_of(run);
  CHECK_THROWS_WITH(run_tail(options), options.run + ": no logs of ranks");
  run.put("logs/rank-0.log", "");
  options.rank = 7;
  CHECK_THROWS_AS(run_tail(options), InputMissing);
  CHECK_THROWS_WITH(run_tail(options), options.run + ": no log of rank 7");
}

}  // namespace ds
