#include "comm/tcp/link_pulse.h"

#include "tests/support/catch.h"

namespace ds::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr LinkPulse::TimePoint kStart{};

LinkPulse::TimePoint at(milliseconds time) { return kStart + time; }

TEST_CASE("link pulse: a connection on which nothing is sent is well") {
  LinkPulse pulse;
  for (int s = 0; s < 100; ++s) pulse.sample(at(seconds(s)), {false, 10, 10});
  CHECK_FALSE(pulse.trouble(at(seconds(100)), 3));
}

TEST_CASE("link pulse: one whose acknowledgements go on is well, however much is under way") {
  LinkPulse pulse;
  for (int s = 0; s < 100; ++s) pulse.sample(at(seconds(s)), {true, static_cast<uint64_t>(s), 10});
  CHECK_FALSE(pulse.trouble(at(seconds(100)), 3));
}

TEST_CASE("link pulse: silence counts from the last acknowledgement") {
  LinkPulse pulse;
  pulse.sample(at(seconds(0)), {true, 1, 10});
  pulse.sample(at(seconds(5)), {true, 2, 11});
  pulse.sample(at(seconds(12)), {true, 2, 11});
  CHECK_FALSE(pulse.trouble(at(milliseconds(12999)), 3));
  const auto trouble = pulse.trouble(at(seconds(13)), 3);
  REQUIRE(trouble);
  CHECK(*trouble == LinkTrouble{3, false, "nothing was acknowledged for 8 s"});
  CHECK(*trouble == *pulse.trouble(at(seconds(50)), 3));
}

TEST_CASE("link pulse: what came while it was stuck shows that the other way works") {
  LinkPulse pulse;
  pulse.sample(at(seconds(0)), {true, 1, 10});
  pulse.sample(at(seconds(1)), {true, 1, 12});  // was under way
  pulse.sample(at(seconds(8)), {true, 1, 12});
  CHECK_FALSE(pulse.trouble(at(seconds(8)), 3)->heard);
  pulse.sample(at(seconds(9)), {true, 1, 13});
  CHECK(pulse.trouble(at(seconds(9)), 3)->heard);
}

TEST_CASE("link pulse: a cut that heals is forgotten") {
  LinkPulse pulse;
  pulse.sample(at(seconds(0)), {true, 1, 10});
  pulse.sample(at(seconds(20)), {true, 1, 10});
  CHECK(pulse.trouble(at(seconds(20)), 3));
  pulse.sample(at(seconds(21)), {false, 2, 11});
  CHECK_FALSE(pulse.trouble(at(seconds(60)), 3));
}

TEST_CASE("link pulse: no TCP socket, no health") { CHECK_FALSE(tcp_health(-1)); }

}  // namespace
}  // namespace ds::detail
