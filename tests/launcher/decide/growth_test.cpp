// When a run looks for hosts and when it grows onto them.
#include "launcher/decide/watch/growth.h"

#include "launcher/decide/recovery.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a lost host is tried again, less and less often", "[launcher]") {
  Growth growth({});
  CHECK(growth.to_try(seconds(0)).empty());
  growth.lost(seconds(0), "a");
  CHECK(growth.to_try(seconds(4)).empty());
  CHECK(growth.misses_any());
  CHECK(growth.next_deadline() == seconds(5));
  CHECK(growth.to_try(seconds(5)) == Names{"a"});
  CHECK(growth.to_try(seconds(6)).empty());  // it is being tried
  Time now = seconds(6);
  for (const int wait : {10, 20, 40, 80, 120, 120}) {
    growth.missed(now, "a");
    CHECK(growth.to_try(now + seconds(wait) - Time(1)).empty());
    now += seconds(wait);
    CHECK(growth.to_try(now) == Names{"a"});
  }
}

TEST_CASE("hosts that come back together are waited for", "[launcher]") {
  Growth growth({});
  growth.lost(seconds(0), "a");
  growth.lost(seconds(0), "b");
  CHECK(growth.to_try(seconds(5)) == Names{"a", "b"});
  growth.found(seconds(5), "a");
  CHECK_FALSE(growth.due(seconds(6)));
  CHECK(growth.misses_any());
  growth.found(seconds(6), "b");
  CHECK_FALSE(growth.misses_any());
  CHECK_FALSE(growth.due(seconds(7)));
  CHECK(growth.due(seconds(8)));
}

TEST_CASE("a world runs for its shortest time before it grows", "[launcher]") {
  Growth growth({.shortest_run = minutes(10)});
  growth.begun(seconds(100));
  growth.promised(seconds(100), "a");
  CHECK(growth.to_try(seconds(100)) == Names{"a"});
  growth.found(seconds(101), "a");
  CHECK_FALSE(growth.due(seconds(699)));
  CHECK(growth.next_deadline() == seconds(700));
  CHECK(growth.due(seconds(700)));
  growth.grown(seconds(700));
  CHECK_FALSE(growth.due(seconds(1299)));
  CHECK(growth.due(seconds(1300)));
}

TEST_CASE("a host that comes and goes makes growths rare", "[launcher]") {
  Growth growth({});
  Time now{};
  Time last{};
  std::vector<Time> between;
  for (int round = 0; round < 8; ++round) {
    growth.lost(now, "a");
    while (growth.to_try(now).empty()) now += seconds(1);
    growth.found(now, "a");
    while (!growth.due(now)) now += seconds(1);
    if (round > 0) between.push_back(now - last);
    last = now;
    growth.grown(now);
    now += seconds(1);
  }
  CHECK(between.front() >= minutes(2));
  CHECK(std::ranges::is_sorted(between));
  CHECK(between.back() <= minutes(31));
  CHECK(between.back() >= minutes(30));
}

TEST_CASE("what is promised is tried at once", "[launcher]") {
  Growth growth({});
  growth.promised(seconds(3), "new");
  CHECK(growth.to_try(seconds(3)) == Names{"new"});
  growth.promised(seconds(4), "new");
  CHECK(growth.to_try(seconds(4)).empty());
  growth.lost(seconds(0), "old");
  growth.look_now(seconds(1));
  CHECK(growth.to_try(seconds(1)) == Names{"old"});
}

TEST_CASE("a world grows by hosts that are back or new, and that is no restart", "[launcher]") {
  NodePool::Options options{.nodes = {{"a", {0, 1}}, {"b", {0, 1}}},
                            .spares = 0,
                            .min_nodes = 1,
                            .max_nodes = 3,
                            .fits = [](int ranks) { return 12 % ranks == 0; }};
  Recovery recovery({}, NodePool(options));
  CHECK(recovery.first_world().size() == 4);
  recovery.pool().lose("b");
  CHECK_FALSE(recovery.growth(4));
  CHECK_FALSE(recovery.growth(2));
  recovery.pool().bring_back("b");
  const auto grown = recovery.growth(2);
  REQUIRE(grown);
  CHECK(grown->restart);
  CHECK(grown->grows);
  CHECK(grown->world.size() == 4);
  CHECK(recovery.restarts() == 0);
  CHECK(recovery.counted() == 0);

  CHECK(recovery.pool().add({"c", {0, 1}}));
  CHECK_FALSE(recovery.pool().add({"c", {0, 1}}));  // known
  CHECK_FALSE(recovery.growth(4));                  // not seen yet
  recovery.pool().bring_back("c");
  CHECK(recovery.growth(4)->world.size() == 6);
  CHECK(recovery.pool().add({"d", {0, 1}}));
  recovery.pool().bring_back("d");
  CHECK_FALSE(recovery.growth(6));  // --nodes allows three
}

TEST_CASE("a world of fixed size takes no new hosts", "[launcher]") {
  NodePool pool(
      {.nodes = {{"a", {0, 1}}}, .spares = 0, .min_nodes = 0, .max_nodes = 0, .fits = nullptr});
  CHECK_FALSE(pool.may_change());
  CHECK_THROWS_AS(pool.add({"b", {0}}), Unsupported);
}

}  // namespace ds
