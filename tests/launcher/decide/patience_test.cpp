// When a process that heeds neither signals nor bounds is ended.
#include "launcher/decide/ending/patience.h"

#include <csignal>

#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The first look at which there is a verdict, in half seconds; -1: none within two minutes.
template <typename Look>
int ended_after(Look&& look) {
  for (int i = 0; i < 240; ++i) {
    if (look(Time(milliseconds(500)) * i, i)) return i;
  }
  return -1;
}

TEST_CASE("a signal that nobody takes for ten seconds ends the process with its code",
          "[launcher][patience]") {
  Patience patience;
  std::optional<Patience::Verdict> verdict;
  const int looks = ended_after([&](Time now, int) {
    verdict = patience.look(now, SIGTERM, std::nullopt, 0);
    return verdict.has_value();
  });
  CHECK(looks == 20);
  REQUIRE(verdict);
  CHECK(verdict->exit_code == 143);
  CHECK(verdict->why == "SIGTERM was not heeded for 10 s");
}

TEST_CASE("a signal that is taken in between is another one's", "[launcher][patience]") {
  Patience patience;
  CHECK(ended_after([&](Time now, int look) {
          const std::optional<int> signal = look % 15 == 0 ? std::nullopt : std::optional(SIGINT);
          return patience.look(now, signal, std::nullopt, 0).has_value();
        }) == -1);
}

TEST_CASE("work that takes longer than it may ends the process with the work's code",
          "[launcher][patience]") {
  Patience patience;
  const BoundedWork work{"ending the control server", seconds(10), 69};
  std::optional<Patience::Verdict> verdict;
  CHECK(ended_after([&](Time now, int look) {
          const bool under_way = look >= 7;
          verdict = patience.look(now, std::nullopt, under_way ? std::optional(work) : std::nullopt,
                                  under_way ? 1 : 0);
          return verdict.has_value();
        }) == 27);
  REQUIRE(verdict);
  CHECK(verdict->exit_code == 69);
  CHECK(verdict->why == "ending the control server takes longer than 10 s");
}

TEST_CASE("the time of one work is not that of the next", "[launcher][patience]") {
  Patience patience;
  const BoundedWork work{"ending the control server", seconds(10), 69};
  CHECK(ended_after([&](Time now, int look) {
          return patience.look(now, std::nullopt, work, look / 15).has_value();
        }) == -1);
}

TEST_CASE("a signal during long work ends the process by the signal", "[launcher][patience]") {
  Patience patience;
  const BoundedWork work{"ending the ranks", std::chrono::minutes(5), 69};
  std::optional<Patience::Verdict> verdict;
  ended_after([&](Time now, int) {
    verdict = patience.look(now, SIGINT, work, 1);
    return verdict.has_value();
  });
  REQUIRE(verdict);
  CHECK(verdict->exit_code == 130);
  CHECK(verdict->why == "SIGINT was not heeded for 10 s, while ending the ranks");
}

TEST_CASE("whoever stood still as a whole is not held to that time", "[launcher][patience]") {
  Patience patience;
  const BoundedWork work{"ending the control server", seconds(10), 69};
  CHECK_FALSE(patience.look(Time::zero(), SIGTERM, work, 1));
  CHECK_FALSE(patience.look(std::chrono::hours(1), SIGTERM, work, 1));
}

}  // namespace
}  // namespace ds
