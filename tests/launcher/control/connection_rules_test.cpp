#include "launcher/control/connection_rules.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ids = std::vector<uint64_t>;
constexpr auto kKnows = ConnectionRules::Greeting::kKnowsTheName;
constexpr auto kDoesNot = ConnectionRules::Greeting::kDoesNot;

// Whether it may stay for now.
bool comes(ConnectionRules& rules, Time now, uint64_t id, const std::string& host,
           ConnectionRules::Greeting greeting = kDoesNot) {
  rules.arrived(now, id, host);
  return rules.greeted(now, id, greeting);
}

}  // namespace

TEST_CASE("a stranger has ten seconds, a rank all the time", "[launcher][security]") {
  ConnectionRules rules({});
  CHECK_FALSE(rules.next_deadline());
  rules.arrived(seconds(1), 1, "a");
  REQUIRE(comes(rules, seconds(2), 2, "a"));
  CHECK(rules.next_deadline() == seconds(11));
  REQUIRE(rules.greeted(seconds(3), 1, kKnows));
  CHECK(rules.next_deadline() == seconds(11));  // greeting late gives no more time
  rules.proven(1);
  CHECK(rules.next_deadline() == seconds(12));
  CHECK(rules.to_cut(seconds(11)).empty());
  CHECK(rules.to_cut(seconds(12)) == Ids{2});
  rules.ended(seconds(12), 2);
  rules.ended(seconds(13), 1);  // a rank that goes is no failure
  CHECK(rules.failures() == 1);
  CHECK(rules.unproven() == 0);
}

TEST_CASE("the oldest strangers make room for new ones", "[launcher][security]") {
  ConnectionRules rules({.max_strangers = 3});
  for (uint64_t id = 1; id <= 5; ++id) {
    REQUIRE(comes(rules, seconds(0), id, "a"));
  }
  rules.proven(1);
  CHECK(rules.to_cut(seconds(0)) == Ids{2});
}

TEST_CASE("whoever holds most makes room first", "[launcher][security]") {
  ConnectionRules rules({.max_strangers = 4});
  rules.arrived(seconds(0), 1, "one");
  for (uint64_t id = 2; id <= 6; ++id) rules.arrived(seconds(0), id, "many");
  rules.arrived(seconds(0), 7, "last");
  CHECK(rules.to_cut(seconds(0)) == Ids{2, 3, 4});
}

TEST_CASE("a host that keeps failing is not heard for a while", "[launcher][security]") {
  ConnectionRules rules({});
  for (uint64_t id = 1; id <= 5; ++id) {
    REQUIRE(comes(rules, milliseconds(100 * id), id, "bad"));
    rules.ended(milliseconds(100 * id), id);
  }
  CHECK_FALSE(comes(rules, milliseconds(600), 6, "bad"));
  CHECK(comes(rules, milliseconds(600), 7, "good"));
  CHECK_FALSE(comes(rules, milliseconds(1099), 8, "bad"));
  CHECK(comes(rules, milliseconds(1100), 9, "bad"));  // the first failure is a second ago
  rules.ended(milliseconds(1150), 9);
  CHECK_FALSE(comes(rules, milliseconds(1160), 10, "bad"));
  CHECK(rules.failures() == 9);
}

TEST_CASE("what others do on its host costs a rank nothing", "[launcher][security]") {
  ConnectionRules rules({.max_strangers = 8, .max_acquaintances = 2});
  uint64_t id = 0;
  for (int i = 0; i < 10'000; ++i) {  // connect and close
    rules.arrived(milliseconds(i), ++id, "a");
    rules.ended(milliseconds(i), id);
  }
  const Time now = milliseconds(9'999);
  for (int i = 0; i < 20; ++i) rules.arrived(now, ++id, "a");  // connect and hold
  CHECK_FALSE(comes(rules, now, ++id, "a"));
  const uint64_t rank = ++id;
  CHECK(comes(rules, now, rank, "a", kKnows));
  for (int i = 0; i < 20; ++i) rules.arrived(now, ++id, "a");
  const Ids cut = rules.to_cut(now);
  CHECK(cut.size() == 32);
  CHECK(std::ranges::find(cut, rank) == cut.end());
  CHECK(rules.failures() == 10'001);
}

TEST_CASE("a host that fails without a pause is heard again each second", "[launcher][security]") {
  ConnectionRules rules({});
  uint64_t heard = 0;
  for (uint64_t id = 1; id <= 8000; ++id) {
    const Time now = milliseconds((id + 1) / 2);
    if (comes(rules, now, id, "a")) {
      ++heard;
      rules.ended(now, id);
    }
    rules.arrived(now, ++id, "b");  // says nothing
    rules.ended(now, id);
  }
  CHECK(heard == 20);
  CHECK(comes(rules, milliseconds(4001), 9001, "b"));  // the next one of its five
}

TEST_CASE("whoever overheard the name has limits of its own", "[launcher][security]") {
  ConnectionRules rules({.max_acquaintances = 3, .max_acquaintance_failures = 4});
  for (uint64_t id = 1; id <= 5; ++id) REQUIRE(comes(rules, seconds(0), id, "a", kKnows));
  CHECK(rules.to_cut(seconds(0)) == Ids{1, 2});
  for (uint64_t id = 1; id <= 4; ++id) rules.ended(seconds(0), id);
  CHECK_FALSE(comes(rules, milliseconds(900), 6, "a", kKnows));
  CHECK(comes(rules, milliseconds(900), 7, "b", kKnows));
  CHECK(comes(rules, milliseconds(900), 8, "a"));  // strangers are counted apart
  CHECK(comes(rules, milliseconds(1000), 9, "a", kKnows));
}

TEST_CASE("who is refused hears it, then goes, and counts once", "[launcher][security]") {
  for (const auto greeting : {kKnows, kDoesNot}) {
    ConnectionRules rules({});
    REQUIRE(comes(rules, seconds(0), 1, "a", greeting));
    rules.refused(seconds(3), 1);
    rules.refused(seconds(4), 1);
    CHECK(rules.to_cut(milliseconds(3999)).empty());
    CHECK(rules.to_cut(seconds(4)) == Ids{1});
    rules.ended(seconds(4), 1);
    CHECK(rules.failures() == 1);
    rules.refused(seconds(5), 1);  // long gone
    rules.proven(1);
    CHECK_FALSE(rules.greeted(seconds(5), 1, greeting));
    CHECK(rules.failures() == 1);
  }
}

}  // namespace ds
