// What happens after an epoch has failed: which failures are tried again, how often, when, on which
// nodes.
#include "launcher/decide/recovery.h"

#include <csignal>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

NodePool one_machine(int ranks) {
  PoolNode node;
  for (int slot = 0; slot < ranks; ++slot) node.slots.push_back(slot);
  return NodePool({.nodes = {node}, .spares = 0, .min_nodes = 0, .fits = nullptr});
}

NodePool cluster(int nodes, int spares, int min_nodes) {
  NodePool::Options options{.nodes = {}, .spares = spares, .min_nodes = min_nodes, .fits = nullptr};
  for (int i = 0; i < nodes; ++i) options.nodes.push_back({fmt::format("node{}", i), {0, 1}});
  if (min_nodes > 0) options.fits = [](int ranks) { return 12 % ranks == 0; };
  return NodePool(options);
}

EpochOutcome killed(int rank, int64_t step, const std::string& host = "") {
  EpochOutcome outcome;
  outcome.cause = {rank, Failure::Kind::kSignal, SIGKILL, Blame::kOwn, "", {}, step};
  outcome.host = host;
  return outcome;
}

EpochOutcome ended(ExitCode code, Blame blame = Blame::kOwn) {
  EpochOutcome outcome;
  outcome.cause = {0, Failure::Kind::kExit, static_cast<int>(code), blame, "words", {}, 3};
  outcome.exit_code = static_cast<int>(code);
  return outcome;
}

// A save that found no room on the disk of /run, in a launch that had made steps.
EpochOutcome disk_full() {
  EpochOutcome outcome = ended(ExitCode::kStorage);
  outcome.cause.detail = "save global_step30: need=2097152 free=100 bytes in /run/checkpoints";
  outcome.stepped = true;
  return outcome;
}

}  // namespace

TEST_CASE("a killed rank is worth a restart, what a rank found wrong itself is not", "[launcher]") {
  for (const ExitCode code : {ExitCode::kTrainingFailed, ExitCode::kUsage, ExitCode::kBadData,
                              ExitCode::kInputMissing, ExitCode::kClusterUnusable,
                              ExitCode::kInternal, ExitCode::kValidation, ExitCode::kConfig}) {
    Recovery recovery({}, one_machine(2));
    const RestartDecision restart_decision = recovery.after(ended(code));
    CHECK_FALSE(restart_decision.restart);
    CHECK(restart_decision.exit_code == static_cast<int>(code));
    CHECK(may_pass(ended(code, Blame::kPeer).cause));  // it only lost a peer
  }
  Recovery recovery({}, one_machine(2));
  CHECK(recovery.after(killed(1, 7)).restart);
  CHECK(may_pass(ended(ExitCode::kStorage).cause));
  CHECK(may_pass({0, Failure::Kind::kExit, 7, Blame::kOwn, "", {}, 0}));
  CHECK(may_pass({0, Failure::Kind::kLease, 0, Blame::kOwn, "", {}, 0}));
  CHECK(may_pass({0, Failure::Kind::kUnreported, 0, Blame::kOwn, "", {}, 0}));
}

TEST_CASE("after a save without room the next epoch waits for room", "[launcher]") {
  Recovery recovery({.wait_for_room = minutes(10), .room_in = "/run"}, one_machine(2));
  const RestartDecision decision = recovery.after(disk_full());
  CHECK(decision.restart);
  REQUIRE(decision.waits_for_room);
  CHECK(decision.waits_for_room->need == 2097152);
  const RestartDecision end = recovery.no_room_came(decision);
  CHECK_FALSE(end.restart);
  CHECK(end.exit_code == 74);
  CHECK_THAT(end.reason, Catch::Contains("need=2097152") &&
                             Catch::Contains("no room has come in 600 s (--wait-for-room)"));
  CHECK_FALSE(recovery.after(ended(ExitCode::kStorage)).waits_for_room);  // an error of the disk
}

TEST_CASE("where no room can have come, a full disk is the end", "[launcher]") {
  const Recovery::Options options{.wait_for_room = minutes(10), .room_in = "/run"};
  const auto end_of = [](const Recovery::Options& given, const EpochOutcome& outcome) {
    Recovery recovery(given, one_machine(2));
    const RestartDecision decision = recovery.after(outcome);
    CHECK_FALSE(decision.restart);
    CHECK(decision.exit_code == 74);
    return decision.reason;
  };
  EpochOutcome at_once = disk_full();
  at_once.stepped = false;
  CHECK_THAT(end_of(options, at_once), Catch::Contains("has made no step yet"));
  CHECK_THAT(end_of({.room_in = "/run"}, disk_full()), Catch::Contains("nobody waits for room"));
  EpochOutcome elsewhere = disk_full();
  elsewhere.cause.detail = "write /swap/rank-0: No space left on device";
  CHECK_THAT(end_of(options, elsewhere), Catch::Contains("only the room of the run directory"));
}

TEST_CASE("restarts are counted, their waits double up to a limit, then the code is 76",
          "[launcher]") {
  Recovery recovery({.max_restarts = 5, .longest_wait = seconds(4)}, one_machine(2));
  std::vector<Time> waits;
  for (int i = 0; i < 5; ++i) {
    const RestartDecision restart_decision = recovery.after(killed(1, 10 * i));
    REQUIRE(restart_decision.restart);
    CHECK(restart_decision.world.size() == 2);
    waits.push_back(restart_decision.wait);
  }
  CHECK(waits == std::vector<Time>{seconds(0), seconds(1), seconds(2), seconds(4), seconds(4)});
  const RestartDecision last = recovery.after(killed(1, 60));
  CHECK_FALSE(last.restart);
  CHECK(last.exit_code == 76);
  CHECK_THAT(last.reason, Catch::Contains("5 restarts are used up"));
  CHECK(recovery.restarts() == 5);
}

TEST_CASE("who commits between failures does not wait", "[launcher]") {
  Recovery recovery({.max_restarts = 9}, one_machine(2));
  EpochOutcome outcome = killed(1, 10);
  CHECK(recovery.after(outcome).wait == Time::zero());
  CHECK(recovery.after(outcome).wait == seconds(1));
  outcome = killed(1, 20);
  outcome.committed = true;
  CHECK(recovery.after(outcome).wait == Time::zero());
}

TEST_CASE("without restarts a failure keeps its own code", "[launcher]") {
  Recovery recovery({.max_restarts = 0}, one_machine(1));
  const RestartDecision restart_decision = recovery.after(killed(0, 1));
  CHECK_FALSE(restart_decision.restart);
  CHECK(restart_decision.exit_code == 1);
}

TEST_CASE("a user who asked for the end gets no other epoch", "[launcher]") {
  Recovery recovery({}, one_machine(1));
  EpochOutcome outcome = killed(0, 1);
  outcome.stop_asked = true;
  CHECK_FALSE(recovery.after(outcome).restart);
}

TEST_CASE("an epoch that ran long and committed forgives the restarts before it", "[launcher]") {
  Recovery recovery({.max_restarts = 1}, one_machine(1));
  CHECK(recovery.after(killed(0, 1)).restart);
  EpochOutcome healthy = killed(0, 500);
  healthy.ran = minutes(11);
  SECTION("not without a commit") { CHECK_FALSE(recovery.after(healthy).restart); }
  SECTION("with one") {
    healthy.committed = true;
    const RestartDecision restart_decision = recovery.after(healthy);
    CHECK(restart_decision.restart);
    CHECK(restart_decision.wait == Time::zero());
    CHECK(recovery.restarts() == 2);
  }
}

TEST_CASE("the same failure three times in a row is the program's", "[launcher]") {
  Recovery recovery({.max_restarts = 100}, one_machine(2));
  CHECK(recovery.after(killed(1, 7)).restart);
  CHECK(recovery.after(killed(1, 7)).restart);
  CHECK(recovery.after(killed(0, 7)).restart);  // another rank: not the same
  CHECK(recovery.after(killed(1, 7)).restart);
  CHECK(recovery.after(killed(1, 7)).restart);
  const RestartDecision restart_decision = recovery.after(killed(1, 7));
  CHECK_FALSE(restart_decision.restart);
  CHECK(restart_decision.exit_code == 1);
  CHECK_THAT(restart_decision.reason, Catch::Contains("3 times in a row"));
}

TEST_CASE("the same failure always on one host of several leaves that host out", "[launcher]") {
  Recovery recovery({.max_restarts = 100}, cluster(3, 1, 0));
  CHECK(recovery.first_world().size() == 4);
  recovery.after(killed(0, 7, "node0"));
  recovery.after(killed(0, 7, "node0"));
  const RestartDecision moved = recovery.after(killed(0, 7, "node0"));
  REQUIRE(moved.restart);
  CHECK(moved.world.front().host == "node1");
  CHECK(moved.world.back().host == "node2");
  for (int i = 0; i < 2; ++i) recovery.after(killed(0, 7, "node1"));
  CHECK_FALSE(recovery.after(killed(0, 7, "node1")).restart);  // no node left to move to
}

TEST_CASE("the same failure on different hosts is the program's", "[launcher]") {
  Recovery recovery({.max_restarts = 100}, cluster(3, 0, 1));
  recovery.after(killed(0, 7, "node0"));
  recovery.after(killed(0, 7, "node1"));
  CHECK_THAT(recovery.after(killed(0, 7, "node1")).reason, Catch::Contains("not the hardware"));
}

TEST_CASE("a cut between hosts is never called the program's fault", "[launcher]") {
  Recovery recovery({.max_restarts = 10}, NodePool([] {
                      NodePool::Options options;
                      options.nodes = {{"a", {0}}, {"b", {0}}};
                      return options;
                    }()));
  EpochOutcome outcome;
  outcome.cause.kind = Failure::Kind::kLinkCut;
  outcome.cause.detail = "a and b cannot reach each other";
  outcome.host = "b";
  outcome.exit_code = static_cast<int>(ExitCode::kBelowMinimum);
  for (int i = 0; i < 6; ++i) {
    const RestartDecision next = recovery.after(outcome);
    CHECK(next.restart);
    CHECK(next.reason == "the network between hosts is cut: a and b cannot reach each other");
  }
}

TEST_CASE("a lost host is replaced by a spare, then the world shrinks, then it is the end",
          "[launcher]") {
  Recovery recovery({.max_restarts = 100}, cluster(4, 1, 2));
  CHECK(recovery.first_world().size() == 6);
  EpochOutcome outcome = killed(2, 1, "node1");
  outcome.lost_hosts = {"node1"};
  RestartDecision restart_decision = recovery.after(outcome);
  REQUIRE(restart_decision.restart);
  CHECK(restart_decision.world.size() == 6);
  CHECK(restart_decision.world[2].host == "node2");
  CHECK(restart_decision.world[2].local_rank == 0);
  CHECK(restart_decision.world[2].local_size == 2);
  outcome = killed(0, 2, "node0");
  outcome.lost_hosts = {"node0"};
  restart_decision = recovery.after(outcome);
  REQUIRE(restart_decision.restart);
  CHECK(restart_decision.world.size() == 4);
  outcome = killed(0, 3, "node2");
  outcome.lost_hosts = {"node2"};
  restart_decision = recovery.after(outcome);
  CHECK_FALSE(restart_decision.restart);
  CHECK(restart_decision.exit_code == 76);
  CHECK_THAT(restart_decision.reason,
             Catch::Contains("1 of 4 nodes are left, at least 2 are needed"));
}

TEST_CASE("with too few nodes a run waits for those that may return", "[launcher]") {
  Recovery recovery({.max_restarts = 100, .wait_for_hosts = seconds(60)}, cluster(2, 0, 0));
  EpochOutcome outcome = killed(2, 1, "node1");
  outcome.lost_hosts = {"node1"};
  CHECK(recovery.after(outcome).exit_code == 76);  // nobody looks for it
  outcome.hosts_may_return = true;
  const RestartDecision restart_decision = recovery.after(outcome);
  REQUIRE(restart_decision.restart);
  CHECK(restart_decision.waits_for_hosts);
  CHECK(restart_decision.world.empty());
  CHECK(recovery.restarts() == 1);
  const RestartDecision end = recovery.nobody_came(restart_decision);
  CHECK_FALSE(end.restart);
  CHECK(end.exit_code == 76);
  CHECK_THAT(end.reason, Catch::Contains("1 of 2 nodes are left") &&
                             Catch::Contains("after 60 s not enough have come back"));
  recovery.pool().bring_back("node1");
  CHECK(recovery.pool().next_world()->size() == 4);
  const RestartDecision next = recovery.after(killed(0, 5, "node0"));  // enough are there
  CHECK_FALSE(next.waits_for_hosts);
  CHECK(next.world.size() == 4);
}

TEST_CASE("an epoch that could never be started is not tried again", "[launcher]") {
  Recovery recovery({}, one_machine(2));
  EpochOutcome outcome;
  outcome.cause = {1, Failure::Kind::kNeverJoined, 0, Blame::kOwn, "", {}, 0};
  outcome.exit_code = 69;
  CHECK(recovery.after(outcome).exit_code == 69);
  recovery.after(killed(1, 4));
  CHECK(recovery.after(outcome).restart);  // it had been up once
}

TEST_CASE("a rank that hangs before it has joined is a hung rank, also in the first epoch",
          "[launcher]") {
  const auto hung = [](int rank) {
    EpochOutcome outcome;
    outcome.cause = {rank, Failure::Kind::kHungAtStart, 0, Blame::kOwn, "", {}, 0};
    outcome.exit_code = 69;
    return outcome;
  };
  Recovery recovery({.max_restarts = 3}, one_machine(2));
  const RestartDecision first = recovery.after(hung(1));
  CHECK(first.restart);
  CHECK(recovery.counted() == 1);
  CHECK(recovery.after(hung(1)).restart);
  const RestartDecision third = recovery.after(hung(1));
  CHECK_FALSE(third.restart);
  CHECK(third.exit_code == 69);
  CHECK_THAT(third.reason, Catch::Contains("3 times in a row"));

  Recovery others({.max_restarts = 3}, one_machine(2));
  for (const int rank : {0, 1, 0}) CHECK(others.after(hung(rank)).restart);
  CHECK(others.after(hung(1)).exit_code == 76);  // used up

  Recovery never({.max_restarts = 0}, one_machine(2));
  CHECK(never.after(hung(1)).exit_code == 69);
}

}  // namespace ds
