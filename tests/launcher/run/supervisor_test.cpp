// The life of a run that goes well, through the supervisor's shell: who is admitted, what each rank
// is told, and what becomes of what it says.
#include "launcher/run/supervisor.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "launcher/process/run_lease.h"
#include "tests/launcher/run/supervised_run.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using testing::exit_code;
using testing::ScriptedRank;
using testing::SupervisedRun;

// What each rank was told, by epoch and rank; for scripts, of which several run at once.
class ToldPlans {
 public:
  void add(const JobPlan& plan) {
    const std::scoped_lock lock(mutex_);
    plans_[{plan.epoch, plan.rank}] = plan;
  }
  const JobPlan& at(int64_t epoch, int rank) const { return plans_.at({epoch, rank}); }
  size_t size() const { return plans_.size(); }

 private:
  std::mutex mutex_;
  std::map<std::pair<int64_t, int>, JobPlan> plans_;
};

}  // namespace

TEST_CASE("ranks that train to the end make a run that ends with 0 and leaves its records",
          "[launcher]") {
  SupervisedRun run(2, [](ScriptedRank& rank) { return rank.train(3); });
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(record.reason == "every rank is done");
  CHECK_FALSE(record.root_cause);
  CHECK(record.restarts == 0);
  REQUIRE(record.epochs.size() == 1);
  CHECK(record.epochs[0].epoch == 1);
  CHECK(record.epochs[0].ranks == 2);
  CHECK(record.epochs[0].steps == 3);
  CHECK(record.epochs[0].reason.empty());
  REQUIRE(record.ranks.size() == 2);
  for (const RankRecord& rank : record.ranks) {
    CHECK(rank.exit_code == 0);
    CHECK(rank.signal == 0);
  }
  CHECK(record.written == std::vector<std::string>{"report.json", "metrics.jsonl", "loss.svg"});
  CHECK(run.said("step 1/3"));
  CHECK(run.said("step 3/3"));
  CHECK(run.errors().empty());
  CHECK(run.file("config.json") == "{}\n");
  const std::string metrics = run.file("metrics.jsonl");
  CHECK(std::ranges::count(metrics, '\n') == 3);
  CHECK_THAT(run.file("report.json"), Catch::Contains("\"exit_code\": 0"));
  CHECK_THAT(run.file("loss.svg"), Catch::StartsWith("<svg"));
  CHECK_THAT(run.file("committed.json"), Catch::Contains("\"step\": 0"));
  CHECK(last_lease(run.directory().path())->exit_code == 0);
  CHECK(run.logged("generation 1: rank 1 is thread 1"));
  CHECK(run.logged("generation 1: all 2 ranks joined"));
}

TEST_CASE("nobody is admitted before all have joined", "[launcher]") {
  std::atomic<bool> last_comes = false;
  std::atomic<bool> early = false;
  RunStatus before;
  SupervisedRun run(2);
  run.starter.script = [&](ScriptedRank& rank) {
    if (rank.rank() == 1) {
      rank.await([&] {
        before = run.status();
        return before.ranks.size() == 2 && before.ranks[0].state == "alive";
      });
      last_comes = true;
    }
    rank.join();
    if (!last_comes) early = true;
    return rank.finish();
  };
  CHECK(run.run().exit_code == 0);
  CHECK_FALSE(early);
  CHECK(before.phase == "starting");
  CHECK(before.ranks.at(1).state == "absent");
}

TEST_CASE("every rank is told its own place and, beside that, what all are told", "[launcher]") {
  ToldPlans told;
  SupervisedRun run(1, [&](ScriptedRank& rank) {
    told.add(rank.join());
    return rank.finish();
  });
  run.use_hosts({"node-1", "node-2"}, 2);
  run.job.shape.threads = 7;
  run.job.device = Device::cuda(0);
  run.job.data_plane = DataPlane::kMpi;
  run.job.audit_samples = true;
  run.job.accept_changes = true;
  run.job.config.canonical_text = R"({"a": 1})";
  run.job.newest_epoch = 11;
  CHECK(run.run().exit_code == 0);
  REQUIRE(told.size() == 4);
  const WorldPlan world = run.starter.plans().at(0);
  for (int rank = 0; rank < 4; ++rank) {
    INFO("rank " << rank);
    const JobPlan& plan = told.at(12, rank);
    CHECK(plan.rank == rank);
    CHECK(plan.local_rank == rank % 2);
    CHECK(plan.local_size == 2);
    CHECK(plan.world_size == 4);
    CHECK(plan.claim == world.claim);
    CHECK(plan.backend == "mpi");
    CHECK(plan.shm_name == world.shm_name);
    CHECK(plan.threads == 7);
    CHECK(plan.device == Device::cuda(0));
    CHECK(plan.audit_samples);
    CHECK(plan.accept_changes);
    CHECK(plan.config_text == R"({"a": 1})");
    CHECK(plan.config_dir == run.here().string());
    CHECK(plan.run_dir == run.directory().path().string());
    CHECK(plan.tcp.endpoints.empty());  // nobody listens for data, so nobody gets a secret
    CHECK(plan.tcp.secret.empty());
  }
  CHECK(world.data_plane == DataPlane::kMpi);
  CHECK(world.ranks.at(3).host == "node-2");
  const std::set<std::string> tokens(world.tokens.begin(), world.tokens.end());
  CHECK(tokens.size() == 4);
}

TEST_CASE("ranks that listen for data are told where all do, and a secret of their epoch",
          "[launcher]") {
  ToldPlans told;
  SupervisedRun run(3, [&](ScriptedRank& rank) {
    told.add(rank.join());
    return rank.epoch() == 1 ? testing::killed_by(SIGSEGV) : rank.finish();
  });
  run.starter.data_endpoint = [](int rank) {
    return rank == 2 ? std::string() : fmt::format("10.0.0.{}:4000", rank);
  };
  run.job.recovery.max_restarts = 1;
  CHECK(run.run().exit_code == 0);
  REQUIRE(told.size() == 6);
  for (int rank = 0; rank < 3; ++rank) {
    const JobPlan& plan = told.at(2, rank);
    // In the order of the ranks; one that listens nowhere has an empty place.
    CHECK(plan.tcp.endpoints == std::vector<std::string>{"10.0.0.0:4000", "10.0.0.1:4000", ""});
    CHECK(plan.tcp.secret.size() == 32);
    CHECK(plan.tcp.secret == told.at(2, 0).tcp.secret);
    CHECK(plan.tcp.secret != told.at(1, rank).tcp.secret);
  }
}

TEST_CASE("what lies in the run directory is told to the ranks, unless the run begins anew",
          "[launcher]") {
  struct Case {
    ResumeMode resume;
    int64_t committed_step;
    std::string committed_by;
    std::string progress;
    int64_t told_step;
    bool old_tags_count;
    bool committed_is_reset;
  };
  const std::vector<Case> cases{
      {ResumeMode::kAuto, 40, "report.json says so", "metrics reach step 45", 45, true, false},
      {ResumeMode::kRequired, 40, "report.json says so", "metrics reach step 45", 45, true, false},
      {ResumeMode::kNever, 0, "", "", 0, false, true},
  };
  for (const Case& expected : cases) {
    INFO("resume mode " << static_cast<int>(expected.resume));
    ToldPlans told;
    SupervisedRun run(1, [&](ScriptedRank& rank) {
      told.add(rank.join());
      return rank.finish();
    });
    run.job.resume = expected.resume;
    run.job.past = {.committed_step = 40,
                    .committed_by = "report.json says so",
                    .unsaved_step = 0,
                    .metrics_step = 45,
                    .metrics_line = R"({"step": 45, "loss": 2.5})",
                    .trace = "metrics reach step 45"};
    CHECK(run.run().exit_code == 0);
    const JobPlan& plan = told.at(1, 0);
    CHECK(plan.resume == expected.resume);
    CHECK(plan.committed_step == expected.committed_step);
    CHECK(plan.committed_by == expected.committed_by);
    CHECK(plan.progress == expected.progress);
    CHECK(plan.told_step == expected.told_step);
    CHECK((plan.oldest_tag_epoch == 0) == expected.old_tags_count);
    CHECK(run.file("committed.json").empty() != expected.committed_is_reset);
  }
}

TEST_CASE("what a launch before began anew stays forgotten, and that is handed on", "[launcher]") {
  ToldPlans told;
  SupervisedRun run(1, [&](ScriptedRank& rank) {
    told.add(rank.join());
    return rank.finish();
  });
  run.job.past.begun_anew = 9;
  CHECK(run.run().exit_code == 0);
  CHECK(told.at(1, 0).resume == ResumeMode::kAuto);
  CHECK(told.at(1, 0).oldest_tag_epoch == 9);
  CHECK_THAT(run.file("committed.json"), Catch::Contains("\"begun_anew\": 9"));
}

TEST_CASE("ranks are told the checkpoint to go back to, and what this launch has made counts more",
          "[launcher]") {
  ToldPlans told;
  SupervisedRun run(1, [&](ScriptedRank& rank) {
    told.add(rank.join());
    return rank.epoch() == 1 ? testing::killed_by(SIGBUS) : rank.finish();
  });
  run.job.resume_tag = "global_step6";
  run.job.recovery.max_restarts = 1;
  run.job.past.committed_step = 40;
  run.job.past.metrics_step = 45;
  CHECK(run.run().exit_code == 0);
  for (const int epoch : {1, 2}) {
    const JobPlan& plan = told.at(epoch, 0);
    CHECK(plan.resume_tag == "global_step6");
    CHECK(plan.oldest_tag_epoch == 1);
    CHECK(plan.resume == ResumeMode::kAuto);
    CHECK(plan.committed_step == 0);  // going back is what is wanted
    CHECK(plan.told_step == 45);
  }
}

TEST_CASE("what rank 0 says reaches the user, the log and the files it is for", "[launcher]") {
  SupervisedRun run(2, [](ScriptedRank& rank) {
    rank.join();
    if (rank.rank() == 0) {
      rank.control().report_text("model: 3 parameters");
      rank.control().report_plan("{\"ranks\": []}");
      rank.step(1, 2);
      rank.step(2, 2, 1.25);
      rank.commit(2);
    }
    rank.control().report_measured(
        {.steps = 2, .host_bytes_peak = 1000 + rank.rank(), .categories = {{"parameters", 17}}});
    return rank.finish();
  });
  const RunRecord record = run.run();
  CHECK(run.said("model: 3 parameters"));
  CHECK(run.logged("rank 0: model: 3 parameters"));
  CHECK(run.file("plan.json") == "{\"ranks\": []}");
  REQUIRE(record.last_step);
  CHECK(record.last_step->step == 2);
  CHECK(record.last_step->values.at("loss") == 1.25);
  REQUIRE(record.last_commit);
  CHECK(record.last_commit->tag() == "global_step2");
  CHECK(run.said("committed tag=global_step2 step=2"));
  CHECK(run.file("committed.json") ==
        "{\"tag\": \"global_step2\", \"step\": 2, \"generation\": 1}\n");
  for (int rank = 0; rank < 2; ++rank) {
    const control::Measured& measured = record.ranks.at(static_cast<size_t>(rank)).measured.value();
    CHECK(measured.steps() == 2);
    CHECK(measured.host_bytes_peak() == 1000 + rank);
    CHECK(measured.categories().at("parameters") == 17);
  }
  CHECK_THAT(run.file("report.json"), Catch::Contains("\"host_bytes_peak\": 1001"));
}

TEST_CASE("lines on a rank's standard error are shown with its number", "[launcher]") {
  SupervisedRun run(2, [](ScriptedRank& rank) {
    rank.join();
    if (rank.rank() == 1) {
      rank.say("a warning");
      rank.say("=== signal report signal=11 code=1 sender=0 user=0 address=10 name=");
    }
    return rank.finish();
  });
  CHECK(run.run().exit_code == 0);
  CHECK(run.errors() == std::vector<std::string>{"[rank 1] a warning"});
}

TEST_CASE("steps_per_print chooses the lines of steps, and files have every step", "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) { return rank.train(7); });
  run.job.config.steps_per_print = 3;
  CHECK(run.run().exit_code == 0);
  std::vector<std::string> shown;
  for (const std::string& line : run.lines()) {
    if (line.starts_with("step ")) shown.push_back(line.substr(0, line.find(' ', 5)));
  }
  CHECK(shown == std::vector<std::string>{"step 1/7", "step 3/7", "step 6/7", "step 7/7"});
  const std::string metrics = run.file("metrics.jsonl");
  CHECK(std::ranges::count(metrics, '\n') == 7);
}

TEST_CASE("a second launch in a directory has a later epoch and keeps what was committed",
          "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) {
    rank.join();
    rank.step(1, 1);
    rank.commit(1);
    return rank.finish();
  });
  CHECK(run.run().epochs.at(0).epoch == 1);
  run.job.past.committed_step = 1;
  run.starter.script = [](ScriptedRank& rank) { return rank.train(0); };
  CHECK(run.run().epochs.at(0).epoch == 2);
  CHECK_THAT(run.file("committed.json"), Catch::Contains("global_step1"));
}

TEST_CASE("a first start that fails is thrown, and ends nothing silently", "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) { return rank.train(1); });
  run.starter.before_start = [](const WorldPlan&) {
    throw InputMissing("rankd: no such file or directory");
  };
  CHECK_THROWS_AS(run.run(), InputMissing);
  CHECK(run.starter.plans().size() == 1);
}

TEST_CASE("a world that the batch sizes do not allow is refused before anything starts",
          "[launcher]") {
  SupervisedRun run(2, [](ScriptedRank& rank) { return rank.train(1); });
  run.job.nodes.fits = [](int) { return false; };
  CHECK_THROWS_AS(run.run(), ConfigError);
  CHECK(run.starter.plans().empty());
}

TEST_CASE("a rank with another configuration is refused, and the run says why", "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) {
    rank.join();
    return rank.finish();
  });
  run.starter.config_digest = "another digest";
  const RunRecord record = run.run();
  CHECK(record.exit_code == static_cast<int>(ExitCode::kClusterUnusable));
  CHECK_THAT(record.reason, Catch::Contains("config"));
}

}  // namespace ds
