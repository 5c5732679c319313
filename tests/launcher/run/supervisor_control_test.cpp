// A run that is asked about or steered from outside, through the supervisor's shell: the control
// socket, signals, and limits of time.
#include <csignal>
#include <thread>

#include "core/status/error.h"
#include "launcher/run/supervisor.h"
#include "tests/launcher/run/supervised_run.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using testing::exit_code;
using testing::killed_by;
using testing::ScriptedRank;
using testing::SupervisedRun;

// As a rank that is told to: saves, says so, and ends.
ExitStatus save_and_end(ScriptedRank& rank, int64_t step) {
  rank.commit(step);
  return rank.finish(ExitCode::kRequeue);
}

std::string refusal_of(const SupervisedRun& run, ControlVerb verb) {
  try {
    return "not refused: " + run.ask(verb);
  } catch (const Error& refused) {
    return refused.what();
  }
}

// Steps once, lets rank 0 do something to the run, and ends as it is then told to.
std::function<ExitStatus(ScriptedRank&)> told_to_stop(std::function<void()> by) {
  return [by = std::move(by)](ScriptedRank& rank) {
    rank.join();
    rank.step(1, 9);
    if (rank.rank() == 0) by();
    return rank.await_command() == Command::kStopAndSave ? save_and_end(rank, 1) : exit_code(98);
  };
}

}  // namespace

TEST_CASE("dslaunch ctl stop saves, ends with 75 and says how to go on", "[launcher]") {
  std::string notice;
  RunStatus asked;
  SupervisedRun run(2);
  run.starter.script = told_to_stop([&] {
    notice = run.ask(ControlVerb::kStop);
    asked = run.status();
  });
  const RunRecord record = run.run();
  CHECK(notice == "saving at the end of this step, then exit 75");
  CHECK(asked.stop_requested);
  CHECK(record.exit_code == 75);
  CHECK(record.reason == "dslaunch ctl stop");
  CHECK(record.last_commit->tag() == "global_step1");
  CHECK_FALSE(record.root_cause);
  CHECK(run.errors().empty());
}

TEST_CASE("signals stop a run as they promise", "[launcher]") {
  struct Case {
    int signal;
    std::string why;
    std::string said;
  };
  const std::vector<Case> cases{
      {SIGTERM, "SIGTERM", "stopping: saving at the end of this step"},
      {SIGHUP, "SIGHUP", "stopping: saving at the end of this step"},
      {SIGINT, "Ctrl-C", "Ctrl-C again kills everything at once"},
      {SIGUSR1, "SIGUSR1", "USR1: saving at the end of this step, then exit 75"},
  };
  for (const Case& expected : cases) {
    INFO(expected.why);
    SupervisedRun run(2);
    run.starter.script = told_to_stop([&] { run.signal(expected.signal); });
    const RunRecord record = run.run();
    CHECK(record.exit_code == 75);
    CHECK(record.reason == expected.why);
    CHECK(run.said(expected.said));
    CHECK(run.logged("signal " + (expected.why == "Ctrl-C" ? "SIGINT" : expected.why)));
  }
}

TEST_CASE("a second Ctrl-C kills everything at once", "[launcher]") {
  SupervisedRun run(2);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    if (rank.rank() == 0) {
      run.signal(SIGINT);
      rank.await_command();
      run.signal(SIGINT);
    }
    rank.await_death();  // deaf to the first
    return exit_code(0);
  };
  const RunRecord record = run.run();
  CHECK(record.exit_code == 128 + SIGINT);
  CHECK(record.reason == "second Ctrl-C");
  CHECK(record.ranks.at(0).signal == SIGKILL);
}

TEST_CASE("a Ctrl-C before the ranks have met ends the run", "[launcher]") {
  SupervisedRun run(2);
  run.starter.script = [&](ScriptedRank& rank) {
    if (rank.rank() == 0) {
      run.signal(SIGINT);
      rank.await([&] { return run.status().stop_requested; });
      run.signal(SIGINT);
      rank.await_death();
    }
    rank.join();
    return exit_code(0);
  };
  CHECK(run.run().exit_code == 128 + SIGINT);
}

TEST_CASE("USR2 tells where everybody is, and the run goes on", "[launcher]") {
  std::atomic<int> dumps = 0;
  SupervisedRun run(2);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.control().on_dump([&] { ++dumps; });
    rank.join();
    rank.step(4, 9);
    if (rank.rank() == 0) {
      rank.await([&] { return run.status().ranks.at(0).progress.step == 4; });
      run.signal(SIGUSR2);
    }
    rank.await([&] { return dumps == 2; });
    return rank.finish();
  };
  CHECK(run.run().exit_code == 0);
  CHECK(run.said("generation 1 running: rank 0 at step 4"));
}

TEST_CASE("a run pauses, says so, and goes on when it is told to", "[launcher]") {
  std::vector<std::string> notices;
  std::string phase;
  SupervisedRun run(2);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    rank.step(1, 2);
    if (rank.rank() == 0) {
      notices.push_back(run.ask(ControlVerb::kPause));
      notices.push_back(run.ask(ControlVerb::kPause));
    }
    if (rank.await_command() != Command::kPause) return exit_code(98);
    rank.control().report_progress({1, 0, "paused"});
    if (rank.rank() == 0) {
      rank.await([&] { return (phase = run.status().phase) == "paused"; });
      notices.push_back(run.ask(ControlVerb::kResume));
      notices.push_back(run.ask(ControlVerb::kResume));
    }
    if (rank.await_command() != Command::kResume) return exit_code(98);
    rank.step(2, 2);
    return rank.finish();
  };
  CHECK(run.run().exit_code == 0);
  CHECK(phase == "paused");
  CHECK(notices == std::vector<std::string>{"pausing at the end of this step",
                                            "it is paused already", "going on",
                                            "it is not paused"});
  CHECK(run.said("dslaunch ctl: pausing at the end of this step"));
  CHECK(run.said("dslaunch ctl: going on"));
}

TEST_CASE("a pause outlives a restart", "[launcher]") {
  SupervisedRun run(1);
  Command first_of_second = Command::kStopAndSave;
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    if (rank.epoch() == 1) {
      run.ask(ControlVerb::kPause);
      return killed_by(SIGSEGV);
    }
    first_of_second = rank.await_command();
    return rank.finish();
  };
  run.job.recovery.max_restarts = 1;
  CHECK(run.run().exit_code == 0);
  CHECK(first_of_second == Command::kPause);
}

TEST_CASE("a run that stops cannot be paused", "[launcher]") {
  std::string refused;
  SupervisedRun run(1);
  run.starter.script = told_to_stop([&] {
    run.ask(ControlVerb::kStop);
    refused = refusal_of(run, ControlVerb::kPause);
  });
  CHECK(run.run().exit_code == 75);
  CHECK_THAT(refused, Catch::Contains("the run is stopping"));
}

TEST_CASE("ctl save and ctl stack reach every rank", "[launcher]") {
  std::string saved;
  std::string stack;
  std::atomic<int> dumps = 0;
  SupervisedRun run(3);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.control().on_dump([&] { ++dumps; });
    rank.join();
    if (rank.rank() == 2) {
      saved = run.ask(ControlVerb::kSave);
      stack = run.ask(ControlVerb::kStack);
    }
    if (rank.await_command() != Command::kSaveNow) return exit_code(98);
    rank.await([&] { return dumps == 3; });
    return rank.finish();
  };
  CHECK(run.run().exit_code == 0);
  CHECK(saved == "saving at the end of this step");
  CHECK(stack == "every rank writes what it does into its log");
  CHECK(run.logged("asked through the control socket: saving at the end of this step"));
}

TEST_CASE("what cannot be done now is refused with the reason", "[launcher]") {
  std::string save_early;
  std::string join;
  std::string nonsense;
  SupervisedRun run(2);
  run.starter.script = [&](ScriptedRank& rank) {
    if (rank.rank() == 0) {
      save_early = refusal_of(run, ControlVerb::kSave);
      join = refusal_of(run, ControlVerb::kJoin);
      try {
        query_run(run.directory().path(), "{\"verb\": \"dance\"}");
      } catch (const Error& refused) {
        nonsense = refused.what();
      }
    }
    rank.join();
    return rank.finish();
  };
  CHECK(run.run().exit_code == 0);
  CHECK_THAT(save_early, Catch::Contains("the ranks are not training yet"));
  CHECK_THAT(join, Catch::Contains("this run has no hosts"));
  CHECK_THAT(nonsense, Catch::Contains("dance"));
}

TEST_CASE("a status has what is known of the run and of every rank", "[launcher]") {
  RunStatus status;
  std::atomic<bool> seen = false;
  SupervisedRun run(2);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    rank.step(3, 10, 0.5);
    rank.commit(3);
    if (rank.rank() == 1) {
      rank.await([&] {
        status = run.status();
        return status.last_commit && status.last_step && status.ranks.at(1).progress.step == 3;
      });
      seen = true;
    }
    rank.await([&] { return seen.load(); });
    return rank.finish();
  };
  CHECK(run.run().exit_code == 0);
  CHECK(status.phase == "running");
  CHECK(status.live());
  CHECK(status.run_dir == run.directory().path().string());
  CHECK(status.config == "train");
  CHECK(status.generation == 1);
  CHECK(status.restarts == 0);
  CHECK_FALSE(status.stop_requested);
  CHECK_FALSE(status.exit_code);
  CHECK(status.last_step->step == 3);
  CHECK(status.last_step->total_steps == 10);
  CHECK(status.last_commit->tag() == "global_step3");
  REQUIRE(status.ranks.size() == 2);
  CHECK(status.ranks[1].rank == 1);
  CHECK(status.ranks[1].pid == getpid());
  CHECK(status.ranks[1].state == "alive");
  CHECK(status.ranks[1].progress.phase == "train");
}

TEST_CASE("between two epochs a run restarts, and what needs ranks is refused", "[launcher]") {
  RunStatus between;
  std::string save;
  std::string stack;
  std::string stop;
  std::thread asker;
  SupervisedRun run(1);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    if (rank.epoch() == 2) {  // a second restart in a row waits
      asker = std::thread([&] {
        try {
          while ((between = run.status()).phase != "restarting") std::this_thread::yield();
          save = refusal_of(run, ControlVerb::kSave);
          stack = refusal_of(run, ControlVerb::kStack);
          stop = run.ask(ControlVerb::kStop);
        } catch (const std::exception& error) {  // the run is over, which it should not be
          stop = error.what();
        }
      });
    }
    return killed_by(rank.epoch() == 1 ? SIGSEGV : SIGBUS);
  };
  run.job.recovery.max_restarts = 5;
  run.job.recovery.first_wait = std::chrono::hours(1);
  const RunRecord record = run.run();
  asker.join();
  CHECK(between.ranks.empty());
  CHECK(between.restarts == 2);
  CHECK_THAT(save, Catch::Contains("the ranks are not training yet"));
  CHECK_THAT(stack, Catch::Contains("no rank is there between two generations"));
  CHECK(stop == "saving at the end of this step, then exit 75");
  CHECK(record.exit_code == 143);  // nothing was committed that could go on
  CHECK(run.starter.plans().size() == 2);
}

TEST_CASE("--timeout saves and ends with 124", "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) {
    rank.join();
    rank.step(1, 9);
    return rank.await_command() == Command::kStopAndSave ? save_and_end(rank, 1) : exit_code(98);
  });
  run.job.timeout = std::chrono::milliseconds(1);
  const RunRecord record = run.run();
  CHECK(record.exit_code == 124);
  CHECK(record.reason == "--timeout");
  CHECK(run.said("--timeout: saving at the end of this step, then exit 124"));
}

TEST_CASE("the end of the job's time is announced, and the run saves before it", "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) {
    rank.join();
    // Another save would take longer than what is left, so it has to be the next thing.
    rank.control().report_commit({"global_step1", 1, 2500});
    rank.step(2, 9);
    return rank.await_command() == Command::kStopAndSave ? save_and_end(rank, 2) : exit_code(98);
  });
  run.job.time_limit = std::chrono::hours(1);
  run.job.limited_by = "Slurm";
  const RunRecord record = run.run();
  CHECK(record.exit_code == 75);
  CHECK(record.reason == "the end of the job's time");
  CHECK(record.last_commit->tag() == "global_step2");
  REQUIRE_FALSE(run.lines().empty());
  CHECK_THAT(run.lines()[0], Catch::StartsWith("saves and stops at ") &&
                                 Catch::Contains("(Slurm ends the job at "));
  CHECK(run.said("Slurm ends the job in "));
}

TEST_CASE("a trace is asked for once, carried to the ranks and written when all have sent it",
          "[launcher]") {
  SupervisedRun run(2);
  std::string notice, again, wrong;
  const auto refused = [&](const ControlRequest& request) {
    try {
      return "not refused: " + run.ask(request);
    } catch (const Error& refusal) {
      return std::string(refusal.what());
    }
  };
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    rank.step(1, 9);
    if (rank.rank() == 0) {
      wrong = refused({.verb = ControlVerb::kTrace, .steps = 2, .ranks = {5}});
      notice = run.ask({.verb = ControlVerb::kTrace, .steps = 2, .ranks = {}});
      again = refused({.verb = ControlVerb::kTrace, .steps = 1, .ranks = {}});
    }
    if (rank.await_command() != Command::kTrace) return exit_code(98);
    const TraceOrder order = rank.control().take_trace_order();
    if (order.steps != 2 || order.ranks != std::vector<int>{0, 1}) return exit_code(97);
    rank.control().report_trace(rank.rank() == 0 ? "of 0\n" : "of 1\n", true);
    rank.await([&] { return run.status().trace.state == "done"; });
    return rank.finish();
  };
  CHECK(run.run().exit_code == 0);
  CHECK(notice == "tracing 2 steps of 2 ranks from the end of this step on");
  CHECK_THAT(again, Catch::Contains("under way already"));
  CHECK_THAT(wrong, Catch::Contains("the ranks are 0 to 1"));
  CHECK(run.file(kTraceFile) == "{\"trace\": 1}\nof 0\nof 1\n");
}

TEST_CASE("a rank that is lost takes the trace with it, and the run goes on", "[launcher]") {
  SupervisedRun run(2);
  run.job.recovery.max_restarts = 1;
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    rank.step(1, 2);
    if (rank.epoch() > 1) {
      rank.await([&] { return run.status().trace.state == "failed"; });
      return rank.finish();
    }
    if (rank.rank() == 0) run.ask({.verb = ControlVerb::kTrace, .steps = 2, .ranks = {}});
    rank.await([&] { return run.status().trace.state == "recording"; });
    if (rank.rank() == 1) return killed_by(SIGKILL);
    rank.await_death();
    return exit_code(98);
  };
  CHECK(run.run().exit_code == 0);
}

}  // namespace ds
