// What a run leaves and shows while the disk, another launcher or an address stands in its way,
// through the supervisor's shell.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include "launcher/process/run_lease.h"
#include "launcher/run/supervisor.h"
#include "tests/launcher/run/supervised_run.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using testing::exit_code;
using testing::killed_by;
using testing::ScriptedRank;
using testing::SupervisedRun;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a disk that does not take metrics is told to the user and stops nothing", "[launcher]") {
  SupervisedRun run(1);
  const fs::path in_the_way = run.directory().file("metrics.jsonl");
  fs::create_directory(in_the_way);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    rank.step(1, 2);
    rank.await([&] { return run.logged("warning: metrics.jsonl: "); });
    fs::remove(in_the_way);
    rank.step(2, 2);
    return rank.finish();
  };
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(run.said("training goes on, and it is tried again"));
  const std::string metrics = content(in_the_way);
  CHECK(std::ranges::count(metrics, '\n') == 2);
}

TEST_CASE("a report that cannot be written is named at the end and in no list of files",
          "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) { return rank.train(1); });
  fs::create_directory(run.directory().file("report.json"));
  run.records_options.patience = std::chrono::milliseconds(50);
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(std::ranges::count(record.written, "report.json") == 0);
  CHECK(std::ranges::count(record.written, "metrics.jsonl") == 1);
  CHECK(run.said("report.json could not be written to the end: "));
}

TEST_CASE("a run whose first epoch cannot be claimed does not start", "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) { return rank.train(1); });
  std::ofstream(run.directory().file("checkpoints")) << "a file";
  fs::remove_all(run.directory().file("logs"));
  std::ofstream(run.directory().file("logs")) << "a file";
  CHECK_THROWS_AS(run.run(), IoError);
  CHECK(run.starter.plans().empty());
}

TEST_CASE("whoever is taken over by another launcher kills its ranks and ends with 75",
          "[launcher]") {
  SupervisedRun run(1);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    const fs::path path = lease_path(run.directory().path());
    Lease theirs = last_lease(run.directory().path()).value();
    theirs.token = "theirs";
    std::ofstream(path) << to_text(theirs);
    rank.await_death();
    return exit_code(0);
  };
  const RunRecord record = run.run();
  CHECK(record.exit_code == 75);
  CHECK_THAT(record.reason, Catch::Contains("has taken this run over"));
  CHECK(record.written.empty());  // the files are the other's
  CHECK_FALSE(fs::exists(run.directory().file("report.json")));
  CHECK(last_lease(run.directory().path())->token == "theirs");
  CHECK_FALSE(last_lease(run.directory().path())->exit_code);
}

TEST_CASE("the figures for Prometheus are written while a run goes on and at its end",
          "[launcher]") {
  SupervisedRun run(1);
  const fs::path textfile = run.here() / "train.prom";
  run.job.metrics_textfile = textfile;
  run.records_options.metrics_textfile = textfile;
  std::string during;
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    rank.await([&] { return !(during = content(textfile)).empty(); });
    rank.step(4, 4, 0.75);
    return rank.finish();
  };
  CHECK(run.run().exit_code == 0);
  CHECK_THAT(during, Catch::Contains("# TYPE"));
  CHECK_THAT(content(textfile), Catch::Contains("dslaunch_step{run=\"run\"} 4") &&
                                    Catch::Contains("dslaunch_loss{run=\"run\"} 0.75"));
}

TEST_CASE("where nobody can listen for Prometheus, no rank is started", "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) { return rank.train(1); });
  run.job.metrics_listen = "192.0.2.1:1";  // an address of documentation, of no machine
  try {
    run.run();
    FAIL("it ran");
  } catch (const Error& refused) {
    CHECK(refused.exit_code() == ExitCode::kClusterUnusable);
    CHECK_THAT(refused.what(), Catch::Contains("192.0.2.1:1"));
  }
  CHECK(run.starter.plans().empty());
}

TEST_CASE("the record of a failed run names every epoch and the cause of the last", "[launcher]") {
  SupervisedRun run(2, [](ScriptedRank& rank) {
    rank.join();
    rank.step(rank.epoch() * 10, 100);
    if (rank.rank() == 0) rank.await_death();
    rank.await([] { return true; });
    return rank.epoch() == 1
               ? killed_by(SIGSEGV)
               : rank.finish(ExitCode::kBadData, ErrorOrigin::kOwn, "corpus.bin: token 9");
  });
  run.job.recovery.max_restarts = 4;
  const RunRecord record = run.run();
  CHECK(record.exit_code == 65);
  const std::string report = run.file("report.json");
  CHECK_THAT(report, Catch::Contains("\"exit_code\": 65"));
  CHECK_THAT(report, Catch::Contains("\"restarts\": 1"));
  CHECK_THAT(report, Catch::Contains("\"generation\": 1, \"world_size\": 2"));
  CHECK_THAT(report, Catch::Contains("rank 1 was killed by signal 11"));
  CHECK_THAT(report, Catch::Contains("\"kind\": \"exit\", \"value\": 65"));
  CHECK(failure_text(record, run.directory()).starts_with("rank 1: corpus.bin: token 9"));
}

}  // namespace ds
