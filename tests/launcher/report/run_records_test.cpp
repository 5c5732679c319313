#include "launcher/report/run_records.h"

#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

Time steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Run {
  testing::TemporaryDirectory here;
  RunDirectory directory = RunDirectory::open("run", here.path(), "train", "now");
};

StepMetrics step(int64_t number) { return {.step = number, .values = {{"loss", 1.5}}}; }

std::string notice_of(RunRecords& records) {
  for (;;) {
    for (const std::string& notice : records.take_notices(steady_now())) return notice;
  }
}

bool written(const RunRecords::Finished& finished, const std::string& name) {
  return std::ranges::count(finished.written, name) == 1;
}

}  // namespace

TEST_CASE("everything a run leaves is there when it has finished", "[launcher]") {
  Run run;
  RunRecords::Options options;
  options.metrics_textfile = run.here.path() / "metrics.prom";
  RunRecords records(run.directory, RunLease::take(run.directory.path(), {}), options);
  records.log().info("it began");
  records.rank_line(1, "a warning");
  records.replace("config.json", "{}\n");
  records.step(step(1));
  records.step(step(2));
  control::CommittedTag tag;
  tag.set_tag("global_step2");
  tag.set_step(2);
  records.committed(tag, 7);
  records.textfile("dslaunch_step 2\n");
  const RunRecords::Finished finished =
      records.finish({.report = "{\"exit_code\": 0}\n", .exit_code = 0});
  CHECK(finished.problems.empty());
  CHECK(finished.written == std::vector<std::string>{"report.json", "metrics.jsonl", "loss.svg"});
  CHECK_THAT(content(run.directory.file("logs/dslaunch.log")), Catch::Contains("it began"));
  CHECK(content(run.directory.rank_log(1)) == "a warning\n");
  CHECK(content(run.directory.file("config.json")) == "{}\n");
  CHECK(content(run.directory.file("committed.json")) ==
        "{\"tag\": \"global_step2\", \"step\": 2, \"generation\": 7}\n");
  CHECK(content(run.directory.file("report.json")) == "{\"exit_code\": 0}\n");
  CHECK_THAT(content(run.directory.file("metrics.jsonl")), Catch::Contains("\"step\": 2"));
  CHECK_THAT(content(run.directory.file("loss.svg")), Catch::StartsWith("<svg"));
  CHECK(content(run.here.path() / "metrics.prom") == "dslaunch_step 2\n");
  CHECK(last_lease(run.directory.path())->exit_code == 0);
}

TEST_CASE("metrics that the disk does not take are late, and complete", "[launcher]") {
  Run run;
  const fs::path in_the_way = run.directory.file("metrics.jsonl");
  fs::create_directory(in_the_way);
  RunRecords records(run.directory, RunLease::take(run.directory.path(), {}), {});
  records.step(step(1));
  CHECK_THAT(notice_of(records), Catch::Contains("warning: metrics.jsonl: ") &&
                                     Catch::Contains("training goes on, and it is tried again"));
  records.step(step(2));
  fs::remove(in_the_way);
  CHECK(notice_of(records) == "metrics.jsonl is written again; what had waited is there");
  const RunRecords::Finished finished = records.finish({.report = "{}\n", .exit_code = 0});
  CHECK(written(finished, "metrics.jsonl"));
  const std::string lines = content(in_the_way);
  CHECK(std::ranges::count(lines, '\n') == 2);
}

TEST_CASE("what could not be written at the end is named with the reason", "[launcher]") {
  Run run;
  fs::create_directory(run.directory.file("report.json"));
  RunRecords::Options options;
  options.patience = std::chrono::milliseconds(50);
  RunRecords records(run.directory, RunLease::take(run.directory.path(), {}), options);
  records.step(step(1));
  const RunRecords::Finished finished = records.finish({.report = "{}\n", .exit_code = 74});
  CHECK_FALSE(written(finished, "report.json"));
  CHECK(written(finished, "metrics.jsonl"));
  REQUIRE(finished.problems.size() == 1);
  CHECK_THAT(finished.problems[0],
             Catch::Contains("report.json could not be written to the end: "));
  CHECK(last_lease(run.directory.path())->exit_code == 74);  // the code is known all the same
}

TEST_CASE("epochs are claimed in the background, one number each", "[launcher]") {
  Run run;
  RunRecords records(run.directory, RunLease::take(run.directory.path(), {}), {});
  for (const int64_t expected : {1, 2}) {
    records.claim_epoch(1, "me", RunRecords::OnError::kTell);
    std::optional<RunRecords::Claim> claim;
    while (!(claim = records.claimed())) {
      pollfd watched{records.event_fd(), POLLIN, 0};
      REQUIRE(poll(&watched, 1, 10'000) == 1);
    }
    CHECK(claim->epoch == expected);
    CHECK(claim->error.empty());
  }
}

TEST_CASE("who has lost the run writes nothing more into it", "[launcher]") {
  Run run;
  RunRecords records(run.directory, RunLease::take(run.directory.path(), {}), {});
  Lease theirs = last_lease(run.directory.path()).value();
  theirs.token = "theirs";
  std::ofstream(lease_path(run.directory.path())) << to_text(theirs);
  records.keep_lease(steady_now());
  std::optional<std::string> taken;
  while (!(taken = records.taken_over())) {
    pollfd watched{records.event_fd(), POLLIN, 0};
    REQUIRE(poll(&watched, 1, 10'000) == 1);
  }
  CHECK_THAT(*taken, Catch::Contains("has taken this run over"));
  records.step(step(1));
  const RunRecords::Finished finished = records.finish({.report = "{}\n", .exit_code = 75});
  CHECK(finished.written.empty());
  CHECK_FALSE(fs::exists(run.directory.file("report.json")));
  CHECK_FALSE(fs::exists(run.directory.file("metrics.jsonl")));
  CHECK(last_lease(run.directory.path()) == theirs);
}

TEST_CASE("a claim is refused to who has lost the run", "[launcher]") {
  Run run;
  RunRecords records(run.directory, RunLease::take(run.directory.path(), {}), {});
  Lease theirs = last_lease(run.directory.path()).value();
  theirs.token = "theirs";
  std::ofstream(lease_path(run.directory.path())) << to_text(theirs);
  records.claim_epoch(1, "me", RunRecords::OnError::kRetry);
  std::optional<std::string> taken;
  while (!(taken = records.taken_over())) {
    pollfd watched{records.event_fd(), POLLIN, 0};
    REQUIRE(poll(&watched, 1, 10'000) == 1);
  }
  CHECK_FALSE(records.claimed());
  CHECK_FALSE(fs::exists(run.directory.file("logs/generation.1")));
}

}  // namespace ds
