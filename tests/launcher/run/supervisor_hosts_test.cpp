// Runs over several hosts that are lost, come back or are added, through the supervisor's shell.
#include <csignal>

#include "launcher/run/supervisor.h"
#include "tests/launcher/run/supervised_run.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using testing::exit_code;
using testing::killed_by;
using testing::ScriptedRank;
using testing::SupervisedRun;

std::vector<std::string> hosts_of(const WorldPlan& plan) {
  std::vector<std::string> out;
  for (const RankPlacement& rank : plan.ranks) out.push_back(rank.host);
  return out;
}

// In the first epoch the last rank's host is lost; later ones train to the end.
ExitStatus loses_its_last_host(ScriptedRank& rank) {
  if (rank.epoch() > 1) return rank.train(2);
  const JobPlan plan = rank.join();
  if (rank.rank() + 1 == plan.world_size) rank.lose_host("node-2: no answer for 12 s");
  rank.await_death();
  return exit_code(0);
}

// Stops when it is told to, and says that it has saved; later epochs train to the end.
ExitStatus ends_when_told(ScriptedRank& rank) {
  if (rank.epoch() > 1) return rank.train(2);
  rank.join();
  rank.step(1, 9);
  const Command told = rank.await_command();
  rank.commit(1);
  return told == Command::kStopAndSave ? rank.finish(ExitCode::kRequeue) : exit_code(98);
}

}  // namespace

TEST_CASE("a run goes on without a host that is lost", "[launcher]") {
  SupervisedRun run(1, loses_its_last_host);
  run.use_hosts({"node-1", "node-2"}, 2);
  run.job.recovery.max_restarts = 3;
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(record.restarts == 1);
  CHECK(record.ranks.size() == 2);
  CHECK_THAT(record.epochs.at(0).reason, Catch::Contains("node-2: no answer for 12 s"));
  const std::vector<WorldPlan> plans = run.starter.plans();
  REQUIRE(plans.size() == 2);
  CHECK(hosts_of(plans[0]) == std::vector<std::string>{"node-1", "node-1", "node-2", "node-2"});
  CHECK(hosts_of(plans[1]) == std::vector<std::string>{"node-1", "node-1"});
  CHECK_THAT(run.errors().at(0), Catch::Contains("\"host\": \"node-2\""));
}

TEST_CASE("a spare host takes the place of one that is lost", "[launcher]") {
  SupervisedRun run(1, loses_its_last_host);
  run.use_hosts({"node-1", "node-2", "node-3"});
  run.job.nodes.spares = 1;
  run.job.nodes.fits = nullptr;  // the size of the world is fixed
  run.job.nodes.min_nodes = 0;
  run.job.recovery.max_restarts = 1;
  CHECK(run.run().exit_code == 0);
  const std::vector<WorldPlan> plans = run.starter.plans();
  REQUIRE(plans.size() == 2);
  CHECK(hosts_of(plans[0]) == std::vector<std::string>{"node-1", "node-2"});
  CHECK(hosts_of(plans[1]) == std::vector<std::string>{"node-1", "node-3"});
}

TEST_CASE("too few hosts end a run that may not wait for them", "[launcher]") {
  SupervisedRun run(1, loses_its_last_host);
  run.use_hosts({"node-1", "node-2"});
  run.job.nodes.min_nodes = 2;
  run.job.recovery.max_restarts = 3;
  const RunRecord record = run.run();
  CHECK(record.exit_code == static_cast<int>(ExitCode::kBelowMinimum));
  CHECK(run.starter.plans().size() == 1);
  CHECK(run.starter.reached().empty());
  REQUIRE(record.root_cause);
  CHECK(record.root_cause->kind == Failure::Kind::kHostLost);
  CHECK_THAT(run.file("report.json"), Catch::Contains("\"kind\": \"host lost\""));
}

TEST_CASE("a run waits for lost hosts, and goes on with all of them when they are back",
          "[launcher]") {
  SupervisedRun run(1, loses_its_last_host);
  run.use_hosts({"node-1", "node-2"});
  run.job.nodes.min_nodes = 2;
  run.job.recovery.max_restarts = 3;
  run.job.recovery.wait_for_hosts = std::chrono::minutes(10);
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(record.ranks.size() == 2);
  CHECK(run.starter.reached() == std::vector<std::string>{"node-2"});
  CHECK(run.said("waiting up to 10m00s for lost hosts to come back"));
  CHECK(run.said("hosts are back: generation 2 with 2 ranks"));
  CHECK(run.logged("looking for host node-2"));
  CHECK(run.logged("host node-2 is there"));
  CHECK(run.starter.tended() > 0);  // which keeps node-1 alive meanwhile
}

TEST_CASE("hosts that do not come back in time end the run", "[launcher]") {
  SupervisedRun run(1, loses_its_last_host);
  run.starter.candidate = [](const std::string& host) { return host + " is switched off"; };
  run.use_hosts({"node-1", "node-2"});
  run.job.nodes.min_nodes = 2;
  run.job.recovery.max_restarts = 3;
  run.job.recovery.wait_for_hosts = std::chrono::seconds(3);  // of turns of at most one
  const RunRecord record = run.run();
  CHECK(record.exit_code == static_cast<int>(ExitCode::kBelowMinimum));
  CHECK_THAT(record.reason, Catch::Contains("after 3 s not enough have come back"));
  CHECK(run.said(record.reason));
  CHECK(run.logged("host node-2 cannot be used: node-2 is switched off"));
  CHECK(run.starter.plans().size() == 1);
}

TEST_CASE("a stop ends a run that waits for hosts", "[launcher]") {
  SupervisedRun run(1, loses_its_last_host);
  run.starter.candidate = [&](const std::string& host) {
    run.signal(SIGTERM);
    return host + " is switched off";
  };
  run.use_hosts({"node-1", "node-2"});
  run.job.nodes.min_nodes = 2;
  run.job.recovery.max_restarts = 3;
  run.job.recovery.wait_for_hosts = std::chrono::hours(1);
  const RunRecord record = run.run();
  CHECK(record.exit_code == 128 + SIGTERM);
  CHECK(record.reason == "SIGTERM");
}

TEST_CASE("hosts that are found unusable at a later start are left out of the next", "[launcher]") {
  SupervisedRun run(1, [](ScriptedRank& rank) {
    if (rank.epoch() > 1) return rank.train(1);
    rank.join();
    return killed_by(SIGSEGV);
  });
  run.starter.before_start = [](const WorldPlan& plan) {
    if (plan.epoch == 2) throw HostsUnusable("node-2: Connection refused", {"node-2"});
  };
  run.use_hosts({"node-1", "node-2", "node-3"});
  run.job.recovery.max_restarts = 3;
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(record.restarts == 2);
  const std::vector<WorldPlan> plans = run.starter.plans();
  REQUIRE(plans.size() == 3);
  CHECK(hosts_of(plans[1]) == std::vector<std::string>{"node-1", "node-2", "node-3"});
  CHECK(hosts_of(plans[2]) == std::vector<std::string>{"node-1", "node-3"});
  CHECK_THAT(record.epochs.at(1).reason, Catch::Contains("node-2: Connection refused"));
}

TEST_CASE("ctl join grows a run onto hosts that were added to the hostfile", "[launcher]") {
  std::string notice;
  SupervisedRun run(1);
  run.starter.script = [&](ScriptedRank& rank) {
    if (rank.epoch() == 1 && rank.rank() == 0) {
      rank.join();
      notice = run.ask(ControlVerb::kJoin);
      const Command told = rank.await_command();
      rank.commit(1);
      return told == Command::kStopAndSave ? rank.finish(ExitCode::kRequeue) : exit_code(98);
    }
    return ends_when_told(rank);
  };
  run.use_hosts({"node-1"});
  run.job.nodes.max_nodes = 2;
  run.job.read_nodes = [] { return std::vector<PoolNode>{{"node-1", {0}}, {"node-2", {0}}}; };
  const RunRecord record = run.run();
  CHECK(notice == "looking for node-2");
  CHECK(record.exit_code == 0);
  CHECK(record.restarts == 0);
  CHECK(record.ranks.size() == 2);
  CHECK(run.said("there are nodes for 2 ranks: saving at the end of this step, then going on"));
  CHECK(run.said("growth; generation 2 with 2 ranks from global_step1"));
  CHECK(run.errors().empty());  // nothing failed
  CHECK(hosts_of(run.starter.plans().at(1)) == std::vector<std::string>{"node-1", "node-2"});
}

TEST_CASE("a new host that vanishes before the larger world starts is no failure", "[launcher]") {
  SupervisedRun run(1);
  run.starter.script = [&](ScriptedRank& rank) {
    if (rank.epoch() > 1) return rank.train(1);
    rank.join();
    run.ask(ControlVerb::kJoin);
    const Command told = rank.await_command();
    rank.commit(1);
    return told == Command::kStopAndSave ? rank.finish(ExitCode::kRequeue) : exit_code(98);
  };
  run.starter.before_start = [](const WorldPlan& plan) {
    if (plan.ranks.size() == 2) throw HostsUnusable("node-2: gone again", {"node-2"});
  };
  run.use_hosts({"node-1"});
  run.job.nodes.max_nodes = 2;
  run.job.read_nodes = [] { return std::vector<PoolNode>{{"node-1", {0}}, {"node-2", {0}}}; };
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK(record.restarts == 0);
  CHECK(record.ranks.size() == 1);
  CHECK(run.said("node-2: gone again"));
  CHECK(run.starter.plans().size() == 3);
  CHECK(run.errors().empty());
}

TEST_CASE("ctl join says when there is nobody new", "[launcher]") {
  std::string notice;
  SupervisedRun run(1);
  run.starter.script = [&](ScriptedRank& rank) {
    rank.join();
    if (rank.rank() == 0) notice = run.ask(ControlVerb::kJoin);
    return rank.finish();
  };
  run.use_hosts({"node-1", "node-2"});
  run.job.read_nodes = [] { return std::vector<PoolNode>{{"node-1", {0}}, {"node-2", {0}}}; };
  CHECK(run.run().exit_code == 0);
  CHECK(notice == "no new host in the hostfile; looking for those that were lost");
}

TEST_CASE("a host that is cut off from another is left out, and tried before it comes back",
          "[launcher]") {
  SupervisedRun run(1);
  run.starter.script = [](ScriptedRank& rank) {
    if (rank.epoch() > 1) return rank.train(1);
    const auto board = std::make_shared<LinkBoard>();
    if (rank.rank() > 0) board->post({{0, false, "nothing was acknowledged for 8 s"}});
    rank.control().watch_links(board);
    rank.join();
    return rank.finish(ExitCode::kTrainingFailed, ErrorOrigin::kPeer, "all_reduce timed out");
  };
  run.use_hosts({"node-1", "node-2"});
  run.job.nodes.min_nodes = 2;
  run.job.recovery.max_restarts = 3;
  run.job.recovery.wait_for_hosts = std::chrono::minutes(1);
  std::atomic<int> tries = 0;
  run.starter.links_of = [&](const std::string& host) {
    return ++tries == 1 ? host + " and node-1 still cannot reach each other" : std::string();
  };
  const RunRecord record = run.run();
  CHECK(record.exit_code == 0);
  CHECK_THAT(record.epochs.at(0).reason, Catch::Contains("the network between hosts is cut") &&
                                             Catch::Contains("node-2 gets no answer from node-1"));
  CHECK(run.starter.tried() == std::vector<std::string>{"node-2", "node-2"});
  CHECK(run.logged("host node-2 cannot be used: node-2 and node-1 still cannot reach each other"));
}

}  // namespace ds
