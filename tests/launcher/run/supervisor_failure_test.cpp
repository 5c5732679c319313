// Ranks that end as they should not, through the supervisor's shell: who is blamed, what is said of
// it, and what the run does next.
#include <csignal>

#include "config/reader/json_reader.h"
#include "launcher/process/run_lease.h"
#include "launcher/run/supervisor.h"
#include "tests/launcher/run/supervised_run.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using testing::exit_code;
using testing::killed_by;
using testing::Script;
using testing::ScriptedRank;
using testing::SupervisedRun;

// Rank 1 ends like this at once, the others wait to be killed.
Script rank_one_ends(std::function<ExitStatus(ScriptedRank&)> how) {
  return [how = std::move(how)](ScriptedRank& rank) {
    rank.join();
    if (rank.rank() == 1) return how(rank);
    rank.await_death();
    return exit_code(0);
  };
}

// Fails like this in the epochs up to `last`, and trains to the end afterwards.
Script fails_until(int64_t last, std::function<ExitStatus(ScriptedRank&)> how) {
  return [last, how = std::move(how)](ScriptedRank& rank) {
    if (rank.epoch() > last) return rank.train(2);
    return rank_one_ends(how)(rank);
  };
}

ExitStatus crash(ScriptedRank& /*rank*/) { return killed_by(SIGSEGV); }

}  // namespace

TEST_CASE("the end of one rank is the end of the run, with a cause and a code of its own",
          "[launcher]") {
  struct Case {
    std::string name;
    std::function<ExitStatus(ScriptedRank&)> how;
    int exit_code;
    Failure::Kind kind;
    std::string words;
  };
  const std::vector<Case> cases{
      {"a signal", crash, 128 + SIGSEGV, Failure::Kind::kSignal,
       "rank 1 was killed by signal 11 (Segmentation fault)"},
      {"a code without a report", [](ScriptedRank&) { return exit_code(7); }, 1,
       Failure::Kind::kUnreported, "rank 1 exited with code 7 without a report"},
      {"code 0 without a report", [](ScriptedRank&) { return exit_code(0); }, 1,
       Failure::Kind::kUnreported, "rank 1 exited with code 0 without a report"},
      {"an error of its own",
       [](ScriptedRank& rank) {
         return rank.finish(ExitCode::kBadData, ErrorOrigin::kOwn, "corpus.bin: token 9");
       },
       65, Failure::Kind::kExit, "rank 1 ended with code 65: corpus.bin: token 9"},
      {"a lost peer that nobody else explains",
       [](ScriptedRank& rank) {
         return rank.finish(ExitCode::kTrainingFailed, ErrorOrigin::kPeer, "all_reduce timed out");
       },
       1, Failure::Kind::kExit, "rank 1 ended with code 1: all_reduce timed out"},
  };
  for (const Case& expected : cases) {
    INFO(expected.name);
    SupervisedRun run(3, rank_one_ends(expected.how));
    const RunRecord record = run.run();
    CHECK(record.exit_code == expected.exit_code);
    REQUIRE(record.root_cause);
    CHECK(record.root_cause->rank == 1);
    CHECK(record.root_cause->kind == expected.kind);
    CHECK(record.reason == expected.words);
    CHECK(record.epochs.at(0).reason == expected.words);
    CHECK(record.ranks.at(0).signal == SIGKILL);
    CHECK(record.ranks.at(2).signal == SIGKILL);
    CHECK(last_lease(run.directory().path())->exit_code == expected.exit_code);
  }
}

TEST_CASE("programs are told of a failure in one line of JSON on standard error", "[launcher]") {
  SupervisedRun run(2);
  run.starter.script = [&run](ScriptedRank& rank) {
    rank.join();
    if (rank.rank() == 0) {
      rank.step(1, 9);
      rank.commit(1);
      rank.await_death();
    }
    rank.await([&] { return run.status().last_commit.has_value(); });
    return killed_by(SIGSEGV);
  };
  const RunRecord record = run.run();
  REQUIRE(run.errors().size() == 1);
  CHECK(run.errors()[0] ==
        "{\"event\": \"fault\", \"code\": 139, \"rank\": 1, \"host\": \"" + record.host +
            "\", \"step\": 1, \"last_committed\": \"global_step1\", \"action\": \"stop\", "
            "\"cause\": \"rank 1 was killed by signal 11 (Segmentation fault)\"}");
}

TEST_CASE("an error whose words are no UTF-8, such as a file's name, is told all the same",
          "[launcher]") {
  SupervisedRun run(2, rank_one_ends([](ScriptedRank& rank) {
                      rank.control().report_text("reads caf\xe9.txt");
                      return rank.finish(ExitCode::kInputMissing, ErrorOrigin::kOwn,
                                         "open caf\xe9.txt: No such file or directory");
                    }));
  const RunRecord record = run.run();
  CHECK(record.exit_code == 66);
  CHECK(record.reason ==
        "rank 1 ended with code 66: open caf\xEF\xBF\xBD.txt: No such file or directory");
  CHECK(run.said("reads caf\xEF\xBF\xBD.txt"));
  // Programs read JSON as UTF-8.
  CHECK_NOTHROW(read_config_document(run.file("report.json"), "report.json"));
  REQUIRE(run.errors().size() == 1);
  CHECK_NOTHROW(read_config_document(run.errors()[0], "the fault"));
}

TEST_CASE("the one that failed is blamed, not those that noticed it first", "[launcher]") {
  std::atomic<bool> noticed = false;
  SupervisedRun run(3, [&](ScriptedRank& rank) {
    rank.join();
    if (rank.rank() == 2) {
      rank.await([&] { return noticed.load(); });
      return killed_by(SIGABRT);
    }
    const ExitStatus end =
        rank.finish(ExitCode::kTrainingFailed, ErrorOrigin::kPeer, "all_reduce: rank 2 is gone");
    noticed = true;
    return end;
  });
  const RunRecord record = run.run();
  REQUIRE(record.root_cause);
  CHECK(record.root_cause->rank == 2);
  CHECK(record.exit_code == 128 + SIGABRT);
}

TEST_CASE("a death for want of memory is told as that, with the group that was full",
          "[launcher]") {
  SupervisedRun run(2, rank_one_ends([](ScriptedRank&) { return killed_by(SIGKILL); }));
  run.starter.memory_death = {.looked = true,
                              .out_of_memory = true,
                              .cgroup = "/job",
                              .cgroup_limit = int64_t{2} << 30,
                              .kernel_line = ""};
  const RunRecord record = run.run();
  CHECK(record.exit_code == 128 + SIGKILL);
  CHECK_THAT(record.reason, Catch::Contains("rank 1 was killed by signal 9 (Killed)") &&
                                Catch::Contains("cgroup /job has a limit of 2.0 GiB"));
  CHECK(record.circumstances.memory.out_of_memory);
  CHECK(record.circumstances.pid == 101);
}

TEST_CASE("who sent a signal, and a rank's last words, are part of the cause", "[launcher]") {
  SupervisedRun run(2, rank_one_ends([](ScriptedRank& rank) {
                      rank.step(4, 9);
                      rank.say("about to do something");
                      rank.say(
                          "=== signal report signal=15 code=0 sender=77 user=5 address=0 "
                          "name=bash");
                      return killed_by(SIGTERM);
                    }));
  const RunRecord record = run.run();
  CHECK_THAT(record.reason, Catch::EndsWith(": sent by pid 77 (bash) of user 5"));
  REQUIRE(record.circumstances.words.lines().size() == 1);
  CHECK(record.circumstances.words.lines()[0] == "about to do something");
}

TEST_CASE("after a crash the world starts again, with secrets of its own, and ends well",
          "[launcher]") {
  SupervisedRun run(2, fails_until(1, crash));
  run.job.recovery.max_restarts = 3;
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(record.restarts == 1);
  REQUIRE(record.epochs.size() == 2);
  CHECK_THAT(record.epochs[0].reason, Catch::Contains("rank 1 was killed by signal 11"));
  CHECK(record.epochs[1].epoch == 2);
  CHECK(record.epochs[1].steps == 2);
  CHECK_FALSE(record.root_cause);
  CHECK(
      run.said("restart 1 of 3: rank 1 was killed by signal 11 (Segmentation fault); generation 2 "
               "with 2 ranks from the beginning"));
  REQUIRE(run.errors().size() == 1);
  CHECK_THAT(run.errors()[0], Catch::Contains("\"action\": \"restart\""));
  const std::vector<WorldPlan> plans = run.starter.plans();
  REQUIRE(plans.size() == 2);
  CHECK(plans[0].claim != plans[1].claim);
  CHECK(plans[0].shm_name != plans[1].shm_name);
  for (size_t rank = 0; rank < 2; ++rank) CHECK(plans[0].tokens[rank] != plans[1].tokens[rank]);
}

TEST_CASE("a restart goes on from what was committed, also in a run that began anew",
          "[launcher]") {
  for (const ResumeMode resume : {ResumeMode::kNever, ResumeMode::kAuto, ResumeMode::kRequired}) {
    INFO("resume mode " << static_cast<int>(resume));
    JobPlan second;
    SupervisedRun run(1);
    run.starter.script = [&](ScriptedRank& rank) {
      const JobPlan plan = rank.join();
      if (rank.epoch() == 2) {
        second = plan;
        return rank.finish();
      }
      for (int64_t step = 1; step <= 3; ++step) rank.step(step, 9);
      rank.commit(2);
      rank.await([&] {
        const RunStatus status = run.status();
        return status.last_commit && status.last_step && status.last_step->step == 3;
      });
      return killed_by(SIGBUS);
    };
    run.job.resume = resume;
    run.job.recovery.max_restarts = 1;
    CHECK(run.run().exit_code == 0);
    CHECK(second.resume == (resume == ResumeMode::kNever ? ResumeMode::kAuto : resume));
    CHECK(second.committed_step == 2);
    CHECK(second.committed_by == "this run has saved global_step2");
    CHECK(second.told_step == 3);
    CHECK((second.oldest_tag_epoch == 1) == (resume == ResumeMode::kNever));
    CHECK(run.said("from global_step2"));
  }
}

TEST_CASE("what will fail again is not started again", "[launcher]") {
  SupervisedRun run(2, rank_one_ends([](ScriptedRank& rank) {
                      return rank.finish(ExitCode::kConfig, ErrorOrigin::kOwn, "no such key");
                    }));
  run.job.recovery.max_restarts = 5;
  const RunRecord record = run.run();
  CHECK(record.exit_code == 78);
  CHECK(record.restarts == 0);
  CHECK(run.starter.plans().size() == 1);
}

TEST_CASE("restarts end when they are used up, or when the same failure comes again and again",
          "[launcher]") {
  SECTION("used up") {
    SupervisedRun run(2, rank_one_ends([](ScriptedRank& rank) {
                        return rank.epoch() == 1 ? killed_by(SIGSEGV) : killed_by(SIGBUS);
                      }));
    run.job.recovery.max_restarts = 1;
    const RunRecord record = run.run();
    CHECK(record.exit_code == static_cast<int>(ExitCode::kBelowMinimum));
    CHECK_THAT(record.reason, Catch::EndsWith("; all 1 restarts are used up"));
    CHECK(run.starter.plans().size() == 2);
  }
  SECTION("the same") {
    SupervisedRun run(2, rank_one_ends(crash));
    run.job.recovery.max_restarts = 10;
    run.job.recovery.same_failure_limit = 2;
    const RunRecord record = run.run();
    CHECK(record.exit_code == 128 + SIGSEGV);
    CHECK_THAT(record.reason, Catch::Contains("the same failure came 2 times in a row"));
    CHECK(run.starter.plans().size() == 2);
  }
}

TEST_CASE("a later epoch that cannot be started is a failure like others", "[launcher]") {
  SupervisedRun run(2, fails_until(1, crash));
  run.job.recovery.max_restarts = 3;
  run.starter.before_start = [](const WorldPlan& plan) {
    if (plan.epoch == 2) throw IoError("posix_spawn: Cannot allocate memory");
  };
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(record.restarts == 2);
  REQUIRE(record.epochs.size() == 3);
  CHECK_THAT(record.epochs[1].reason, Catch::Contains("posix_spawn: Cannot allocate memory"));
  CHECK(run.said("restart 2 of 3: rank 0 did not join: posix_spawn: Cannot allocate memory"));
}

TEST_CASE("a rank that answers and does not progress is found to hang", "[launcher]") {
  SupervisedRun run(2, [](ScriptedRank& rank) {
    rank.join();
    if (rank.rank() == 0) {
      rank.control().watch_collectives([] {
        return CollectiveMark{3, "data", 3, "all_gather", true};
      });
    }
    rank.step(1, 9);
    rank.await_death();
    return exit_code(0);
  });
  run.job.hang.floor = std::chrono::milliseconds(1500);
  const RunRecord record = run.run();
  REQUIRE(record.root_cause);
  CHECK(record.root_cause->kind == Failure::Kind::kHang);
  CHECK(record.root_cause->rank == 1);
  CHECK(record.exit_code == 1);
  CHECK_THAT(record.reason, Catch::Contains("rank 1 hangs: no progress for"));
  CHECK(record.circumstances.progress.step == 1);
}

}  // namespace ds
