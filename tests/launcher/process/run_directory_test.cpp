#include "launcher/process/files/run_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/status/error.h"
#include "launcher/report/metrics_file.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

StepMetrics step(int64_t number, double loss) {
  return {.step = number,
          .values = {{"loss", loss},
                     {"lr", 0.5},
                     {"loss_scale", 1},
                     {"samples", static_cast<double>(8 * number)}}};
}

}  // namespace

TEST_CASE("a run gets a new directory, and latest points at the one that has trained",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory first =
      RunDirectory::open(std::nullopt, here.path(), "train", "20260101-1200");
  CHECK(first.path() == here.path() / "runs/train-20260101-1200");
  CHECK(fs::is_directory(first.file("logs")));
  CHECK_FALSE(fs::exists(here.path() / "runs/latest"));
  first.become_latest();
  CHECK(fs::read_symlink(here.path() / "runs/latest") == "train-20260101-1200");
  const RunDirectory second =
      RunDirectory::open(std::nullopt, here.path(), "train", "20260101-1200");
  CHECK(second.path() == here.path() / "runs/train-20260101-1200-2");
  CHECK(fs::read_symlink(here.path() / "runs/latest") == "train-20260101-1200");
  second.become_latest();
  CHECK(fs::read_symlink(here.path() / "runs/latest") == "train-20260101-1200-2");
  const RunDirectory elsewhere = RunDirectory::open("a/b", here.path(), "train", "now");
  elsewhere.become_latest();
  CHECK(fs::read_symlink(here.path() / "runs/latest") == here.path() / "a/b");
  CHECK(first.shown(first.rank_log(3)) == "runs/train-20260101-1200/logs/rank-3.log");
  CHECK(first.shown("/elsewhere/x") == "/elsewhere/x");
}

TEST_CASE("a named run directory is used again and leaves nothing but logs", "[launcher]") {
  const testing::TemporaryDirectory here;
  for (int i = 0; i < 2; ++i) {
    const RunDirectory run = RunDirectory::open("a/b", here.path(), "train", "now");
    CHECK(run.path() == here.path() / "a/b");
  }
  CHECK(std::distance(fs::directory_iterator(here.path() / "a/b"), {}) == 1);
  CHECK_FALSE(fs::exists(here.path() / "runs"));
}

TEST_CASE("the newest run with a checkpoint can be resumed", "[launcher]") {
  const testing::TemporaryDirectory here;
  CHECK_FALSE(newest_resumable_run(here.path(), "train"));
  for (const char* run :
       {"train-20260101-100000", "train-20260102-100000", "train-20260102-100000-2",
        "train-20260102-100000-10", "train-big-20260109-100000"}) {
    fs::create_directories(here.path() / "runs" / run / "checkpoints/global_step5");
  }
  fs::create_directories(here.path() / "runs/train-20260103-100000/checkpoints");  // none yet
  fs::create_directory_symlink("train-20260103-100000", here.path() / "runs/latest");
  CHECK(newest_resumable_run(here.path(), "train")->filename() == "train-20260102-100000-10");
  CHECK(newest_resumable_run(here.path(), "train-big")->filename() == "train-big-20260109-100000");
}

TEST_CASE("what stands where a file is written and is none is found before anything runs",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  const auto again = [&] { RunDirectory::open("run", here.path(), "train", "now"); };
  for (const char* name : {"config.json", "metrics.jsonl", "metrics.csv", "plan.json",
                           "report.json", "committed.json", "loss.svg", "logs/dslaunch.log"}) {
    INFO(name);
    fs::create_directory(run.file(name));
    CHECK_THROWS_AS(again(), IoError);
    CHECK_THROWS_WITH(again(), Catch::Contains(name) && Catch::Contains("is a directory"));
    fs::remove(run.file(name));
    REQUIRE(mkfifo(run.file(name).c_str(), 0600) == 0);
    CHECK_THROWS_WITH(again(), Catch::Contains("is a FIFO"));
    fs::remove(run.file(name));
    fs::create_symlink("/dev/null", run.file(name));
    CHECK_THROWS_WITH(again(), Catch::Contains("is a device or socket"));
    fs::remove(run.file(name));
    std::ofstream(run.file(name)) << "x";
    CHECK_NOTHROW(again());
  }
}

TEST_CASE("a run directory whose name is no UTF-8 is refused, and not made", "[launcher]") {
  const testing::TemporaryDirectory here;
  const auto open = [&] { RunDirectory::open("caf\xe9", here.path(), "train", "now"); };
  CHECK_THROWS_AS(open(), IoError);
  CHECK_THROWS_WITH(open(), Catch::Contains("caf\xEF\xBF\xBD has a name that is no UTF-8; "
                                            "choose another --run-dir"));
  CHECK(fs::is_empty(here.path()));
  const fs::path below = here.path() / "caf\xe9";
  fs::create_directory(below);
  CHECK_THROWS_AS(RunDirectory::open(std::nullopt, below, "train", "now"), IoError);
  CHECK_NOTHROW(RunDirectory::open("caf\xC3\xA9", here.path(), "train", "now"));
}

TEST_CASE("a FIFO is not appended to, which would wait for a reader", "[launcher]") {
  const testing::TemporaryDirectory here;
  const fs::path pipe = here.path() / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(AppendFile(pipe), IoError);
}

TEST_CASE("a path through runs/latest is the run that it means now", "[launcher]") {
  const testing::TemporaryDirectory here;
  fs::create_directories(here.path() / "runs/one");
  fs::create_directory_symlink("one", here.path() / "runs/latest");
  fs::create_directories(here.path() / "elsewhere/latest");  // a folder of that name
  CHECK(without_latest(here.path() / "runs/latest/logs") == here.path() / "runs/one/logs");
  CHECK(without_latest(here.path() / "runs/latest") == here.path() / "runs/one");
  CHECK(without_latest(here.path() / "elsewhere/latest") == here.path() / "elsewhere/latest");
  CHECK(without_latest(here.path() / "runs/one") == here.path() / "runs/one");
  CHECK(without_latest("runs/latest") == "runs/latest");  // there is none from here
}

TEST_CASE("a checkpoint is as large as the files of the newest tag", "[launcher]") {
  const testing::TemporaryDirectory here;
  CHECK(newest_checkpoint_bytes(here.path()) == 0);
  const fs::path checkpoints = here.path() / "checkpoints";
  for (const char* tag : {"global_step1", "global_step2"})
    fs::create_directories(checkpoints / tag / "below");
  std::ofstream(checkpoints / "global_step1/a") << std::string(1000, 'x');
  std::ofstream(checkpoints / "global_step2/a") << std::string(30, 'x');
  std::ofstream(checkpoints / "global_step2/below/b") << std::string(4, 'x');
  CHECK(newest_checkpoint_bytes(here.path()) == 0);  // nobody says which is the newest
  const auto latest = [&](const std::string& tag) {
    std::ofstream(checkpoints / "latest") << tag << '\n';
    return newest_checkpoint_bytes(here.path());
  };
  CHECK(latest("global_step2") == 34);
  CHECK(latest("global_step1") == 1000);
  CHECK(latest("gone") == 0);
  CHECK(latest("../checkpoints/global_step1") == 0);  // a tag is a name, and no way
}

TEST_CASE("a directory that cannot be made or written is a storage error", "[launcher]") {
  const testing::TemporaryDirectory here;
  std::ofstream(here.path() / "file") << "x";
  CHECK_THROWS_AS(RunDirectory::open("file", here.path(), "train", "now"), IoError);
  CHECK_THROWS_AS(RunDirectory::open("file/below", here.path(), "train", "now"), IoError);
  CHECK_THROWS_AS(RunDirectory::open("/proc/self/run", here.path(), "train", "now"), IoError);
}

TEST_CASE("a whole file is replaced or left alone", "[launcher]") {
  const testing::TemporaryDirectory here;
  write_whole_file(here.path() / "a", "one");
  write_whole_file(here.path() / "a", "two");
  CHECK(content(here.path() / "a") == "two");
  CHECK_THROWS_AS(write_whole_file(here.path() / "missing/a", "x"), IoError);
  fs::create_directory(here.path() / "d");
  CHECK_THROWS_AS(write_whole_file(here.path() / "d", "x"), IoError);
  CHECK(std::distance(fs::directory_iterator(here.path()), {}) == 2);
}

TEST_CASE("a full disk is named with the file", "[launcher]") {
  AppendFile full("/dev/full");
  full.add("x");
  CHECK_THROWS_WITH(full.flush(), Catch::Contains("/dev/full: No space left on device"));
}

// A row of metrics.csv whose last columns are empty.
std::string csv_row(const std::string& first) {
  const auto commas = [](const std::string& text) { return std::ranges::count(text, ','); };
  const auto missing = commas(metrics_csv_header()) - commas(first);
  return first + std::string(static_cast<size_t>(missing), ',') + "\n";
}

TEST_CASE("metrics are one line per step, in both files", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  MetricsFile metrics(run);
  metrics.add(step(1, 2.5));
  StepMetrics second = step(2, 0.1);
  second.values.set("grad_norm", 1.5);
  second.values.set("validation_loss", 3);
  metrics.add(second);
  metrics.flush();
  CHECK(content(run.file("metrics.jsonl")) ==
        "{\"step\": 1, \"loss\": 2.5, \"grad_norm\": null, \"lr\": 0.5, \"loss_scale\": 1, "
        "\"tokens_per_s\": null, \"samples\": 8}\n"
        "{\"step\": 2, \"loss\": 0.1, \"grad_norm\": 1.5, \"lr\": 0.5, \"loss_scale\": 1, "
        "\"tokens_per_s\": null, \"samples\": 16, \"validation_loss\": 3}\n");
  CHECK(content(run.file("metrics.csv")) ==
        metrics_csv_header() + csv_row("1,2.5,,0.5,1,,8") + csv_row("2,0.1,1.5,0.5,1,,16,3"));
}

TEST_CASE("a resumed run continues its metrics where it resumed", "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  {
    MetricsFile metrics(run);
    for (int64_t s = 1; s <= 5; ++s) {
      metrics.add(step(s, 10.0 - static_cast<double>(s)));
    }
    metrics.flush();
  }
  std::ofstream(run.file("metrics.jsonl"), std::ios::app) << "{\"step\": 6, \"loss\": 1";  // torn
  MetricsFile metrics(run);
  metrics.add(step(4, 60));
  metrics.flush();
  CHECK(content(run.file("metrics.csv")) ==
        metrics_csv_header() + csv_row("1,9,,0.5,1,,8") + csv_row("2,8,,0.5,1,,16") +
            csv_row("3,7,,0.5,1,,24") + csv_row("4,60,,0.5,1,,32"));
  std::istringstream lines(content(run.file("metrics.jsonl")));
  std::vector<int64_t> steps;
  for (std::string line; std::getline(lines, line);) {
    steps.push_back(step_of_json_line(line).value());
  }
  CHECK(steps == std::vector<int64_t>{1, 2, 3, 4});
  REQUIRE(metrics.points().size() == 4);
  CHECK(metrics.points()[2].loss == 7);
}

TEST_CASE("a step that another epoch of the same launch does again replaces what was there",
          "[launcher]") {
  const testing::TemporaryDirectory here;
  const RunDirectory run = RunDirectory::open("run", here.path(), "train", "now");
  MetricsFile metrics(run);
  for (const int64_t number : {1, 2, 3, 2, 3, 4}) metrics.add(step(number, 1));
  metrics.flush();
  CHECK(content(run.file("metrics.csv")) ==
        metrics_csv_header() + csv_row("1,1,,0.5,1,,8") + csv_row("2,1,,0.5,1,,16") +
            csv_row("3,1,,0.5,1,,24") + csv_row("4,1,,0.5,1,,32"));
}

TEST_CASE("only our own lines have a step", "[launcher]") {
  CHECK(step_of_json_line("{\"step\": 12, \"loss\": 1}") == 12);
  for (const char* line : {"", "{}", "{\"step\": }", "{\"step\": x}", "{\"step\": 12, \"loss\""}) {
    CHECK_FALSE(step_of_json_line(line));
  }
}

}  // namespace ds
