#include "launcher/connection_rules.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ids = std::vector<uint64_t>;

}  // namespace

TEST_CASE("a stranger has ten seconds, a rank all the time", "[launcher][security]") {
  ConnectionRules rules({});
  CHECK_FALSE(rules.next_deadline());
  REQUIRE(rules.arrived(seconds(1), 1, "a"));
  REQUIRE(rules.arrived(seconds(2), 2, "a"));
  CHECK(rules.next_deadline() == seconds(11));
  rules.proven(1);
  CHECK(rules.next_deadline() == seconds(12));
  CHECK(rules.to_cut(seconds(11)).empty());
  CHECK(rules.to_cut(seconds(12)) == Ids{2});
  rules.ended(seconds(12), 2);
  rules.ended(seconds(13), 1);  // a rank that goes is no failure
  CHECK(rules.failures() == 1);
  CHECK(rules.strangers() == 0);
}

TEST_CASE("the oldest strangers make room for new ones", "[launcher][security]") {
  ConnectionRules rules({.max_strangers = 3});
  for (uint64_t id = 1; id <= 5; ++id) {
    REQUIRE(rules.arrived(seconds(0), id, "a"));
  }
  rules.proven(1);
  CHECK(rules.to_cut(seconds(0)) == Ids{2});
}

TEST_CASE("a host that keeps failing is not heard for a while", "[launcher][security]") {
  ConnectionRules rules({});
  for (uint64_t id = 1; id <= 5; ++id) {
    REQUIRE(rules.arrived(milliseconds(100 * id), id, "bad"));
    rules.ended(milliseconds(100 * id), id);
  }
  CHECK_FALSE(rules.arrived(milliseconds(600), 6, "bad"));
  CHECK(rules.arrived(milliseconds(600), 7, "good"));
  CHECK_FALSE(rules.arrived(milliseconds(1099), 8, "bad"));
  CHECK(rules.arrived(milliseconds(1100), 9, "bad"));  // the first failure is a second ago
  rules.ended(milliseconds(1150), 9);
  CHECK_FALSE(rules.arrived(milliseconds(1160), 10, "bad"));
  CHECK(rules.failures() == 6);
}

TEST_CASE("who is refused hears it, then goes, and counts once", "[launcher][security]") {
  ConnectionRules rules({});
  REQUIRE(rules.arrived(seconds(0), 1, "a"));
  rules.refused(seconds(3), 1);
  rules.refused(seconds(4), 1);
  CHECK(rules.to_cut(milliseconds(3999)).empty());
  CHECK(rules.to_cut(seconds(4)) == Ids{1});
  rules.ended(seconds(4), 1);
  CHECK(rules.failures() == 1);
  rules.refused(seconds(5), 1);  // long gone
  rules.proven(1);
  CHECK(rules.failures() == 1);
}

}  // namespace ds
