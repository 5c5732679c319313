#include "launcher/decide/lease_rules.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

using Verdict = LeaseContest::Verdict;
using std::chrono::seconds;

Lease lease() {
  return {.token = "0123",
          .host = "node-1",
          .pid = 4711,
          .process_start = 99,
          .kernel = "boot-a",
          .pid_namespace = "pid:[1]",
          .since = "2026-11-22 10:31:05",
          .renewals = 3,
          .over = false,
          .exit_code = std::nullopt};
}

const LeaseWitness kSameMachine{
    .kernel = "boot-a", .pid_namespace = "pid:[1]", .holder_runs = false};
const LeaseWitness kOtherMachine{
    .kernel = "boot-b", .pid_namespace = "pid:[1]", .holder_runs = false};

Verdict first_look(LeaseLock lock, const std::string& text, const LeaseWitness& witness) {
  return LeaseContest().look(seconds(5), lock, text, witness);
}

}  // namespace

TEST_CASE("a lease is text of one size, and back", "[launcher]") {
  Lease one = lease();
  CHECK(to_text(one).size() == kLeaseBytes);
  CHECK(parse_lease(to_text(one)) == one);
  one.over = true;
  one.exit_code = 74;
  one.renewals = int64_t{1} << 60;
  one.host = std::string(255, '"');  // the longest name there can be, all of it escaped
  CHECK(parse_lease(to_text(one)) == one);
  CHECK(describe(lease()) == "dslaunch, pid 4711 on node-1, since 2026-11-22 10:31:05");
}

TEST_CASE("what is no lease is none", "[launcher]") {
  const std::string good = to_text(lease());
  for (const std::string& text :
       {std::string(), good.substr(1), good + " ", std::string(kLeaseBytes, ' '),
        std::string(kLeaseBytes, '['), std::string(kLeaseBytes, '\0'),
        "{" + std::string(kLeaseBytes - 2, ' ') + "}"}) {
    CHECK_FALSE(parse_lease(text));
  }
}

TEST_CASE("a lease is lost to another's word, not to a torn one", "[launcher]") {
  Lease theirs = lease();
  theirs.token = "4567";
  CHECK(is_anothers(to_text(theirs), lease()));
  CHECK_FALSE(is_anothers(to_text(lease()), lease()));
  CHECK_FALSE(is_anothers(to_text(theirs).substr(0, 100), lease()));
  CHECK_FALSE(is_anothers("", lease()));
}

TEST_CASE("a launcher whose lock is held is there, stopped or not", "[launcher]") {
  const std::string text = to_text(lease());
  CHECK(first_look(LeaseLock::kHeld, text, kSameMachine) == Verdict::kRefuse);
  CHECK(first_look(LeaseLock::kHeld, text, kOtherMachine) == Verdict::kRefuse);
  CHECK(first_look(LeaseLock::kHeld, "", kSameMachine) == Verdict::kRefuse);  // it has just begun
}

TEST_CASE("a lease that nobody has, or that is over, is taken at once", "[launcher]") {
  Lease over = lease();
  over.over = true;
  for (const LeaseLock lock : {LeaseLock::kOurs, LeaseLock::kUnsupported}) {
    CHECK(first_look(lock, "", kOtherMachine) == Verdict::kTake);
    CHECK(first_look(lock, to_text(over), kOtherMachine) == Verdict::kTake);
  }
}

TEST_CASE("on its own machine the kernel says whether a launcher is gone", "[launcher]") {
  const std::string text = to_text(lease());
  LeaseWitness witness = kSameMachine;
  CHECK(first_look(LeaseLock::kOurs, text, witness) == Verdict::kTake);
  CHECK(first_look(LeaseLock::kUnsupported, text, witness) == Verdict::kTake);
  witness.holder_runs = true;
  CHECK(first_look(LeaseLock::kOurs, text, witness) ==
        Verdict::kTake);  // the pid is another's by now
  CHECK(first_look(LeaseLock::kUnsupported, text, witness) == Verdict::kRefuse);
  witness.pid_namespace = "pid:[2]";  // where pids mean something else
  witness.holder_runs = false;
  CHECK(first_look(LeaseLock::kUnsupported, text, witness) == Verdict::kWatch);
}

TEST_CASE("a launcher of another machine is gone when its lease is not renewed for long",
          "[launcher]") {
  const LeaseLock lock = GENERATE(LeaseLock::kOurs, LeaseLock::kUnsupported);
  const std::string text = to_text(lease());
  LeaseContest contest;
  CHECK(contest.look(seconds(100), lock, text, kOtherMachine) == Verdict::kWatch);
  CHECK(contest.look(seconds(114), lock, text, kOtherMachine) == Verdict::kWatch);
  CHECK(contest.look(seconds(115), lock, text, kOtherMachine) == Verdict::kTake);
}

TEST_CASE("a lease that is renewed while it is watched is refused", "[launcher]") {
  Lease renewed = lease();
  LeaseContest contest;
  CHECK(contest.look(seconds(100), LeaseLock::kUnsupported, to_text(renewed), kOtherMachine) ==
        Verdict::kWatch);
  ++renewed.renewals;
  CHECK(contest.look(seconds(102), LeaseLock::kUnsupported, to_text(renewed), kOtherMachine) ==
        Verdict::kRefuse);
}

TEST_CASE("a lease that was cut off while it was written is watched, and taken if it stays so",
          "[launcher]") {
  const std::string torn = to_text(lease()).substr(0, 100);
  LeaseContest contest;
  CHECK(contest.look(seconds(0), LeaseLock::kOurs, torn, kSameMachine) == Verdict::kWatch);
  CHECK(contest.look(seconds(15), LeaseLock::kOurs, torn, kSameMachine) == Verdict::kTake);
  LeaseContest other;
  CHECK(other.look(seconds(0), LeaseLock::kUnsupported, torn, kSameMachine) == Verdict::kWatch);
  CHECK(other.look(seconds(1), LeaseLock::kUnsupported, to_text(lease()), kOtherMachine) ==
        Verdict::kRefuse);
}

}  // namespace ds
