#include "launcher/decide/watch/link_watch.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<std::string> kTwoHosts{"a", "a", "b", "b"};

LinkWatch watch_of(std::vector<std::string> hosts) { return LinkWatch({}, std::move(hosts)); }

TEST_CASE("link watch: who complains of nothing is cut off from nobody") {
  LinkWatch watch = watch_of(kTwoHosts);
  watch.reported(seconds(1), 0, {});
  CHECK_FALSE(watch.verdict(seconds(1000)));
  CHECK_FALSE(watch.suspected());
  CHECK(watch.next_deadline() == Time::max());
}

TEST_CASE("link watch: each direction has its own sentence") {
  struct Case {
    bool a_hears, b_hears;
    const char* words;
  };
  const auto [a_hears, b_hears, words] =
      GENERATE(values<Case>({{false, false, "a and b cannot reach each other"},
                             {true, false, "a cannot reach b, the other way works"},
                             {false, true, "b cannot reach a, the other way works"},
                             {true, true,
                              "what a and b send each other is lost although some packets arrive "
                              "(a smaller MTU on the way does that)"}}));
  LinkWatch watch = watch_of({"a", "b"});
  watch.reported(seconds(1), 0, {{1, a_hears, ""}});
  watch.reported(seconds(2), 1, {{0, b_hears, ""}});
  CHECK_FALSE(watch.verdict(seconds(3)));
  const auto verdict = watch.verdict(milliseconds(3500));
  REQUIRE(verdict);
  CHECK(verdict->words == words);
  CHECK(verdict->without == std::vector<std::string>{"b"});
  CHECK(verdict->rank == 1);
}

TEST_CASE("link watch: one end is believed alone after some time") {
  LinkWatch watch = watch_of({"a", "b"});
  SECTION("the first") {
    watch.reported(seconds(1), 0, {{1, false, "nothing was acknowledged for 8 s"}});
    CHECK_FALSE(watch.verdict(seconds(4)));
    CHECK(watch.next_deadline() == seconds(5));
    CHECK(watch.verdict(seconds(5))->words ==
          "a gets no answer from b (nothing was acknowledged for 8 s)");
  }
  SECTION("the second") {
    watch.reported(seconds(1), 1, {{0, true, ""}});
    CHECK(watch.verdict(seconds(5))->words == "b cannot reach a, the other way works");
  }
}

TEST_CASE("link watch: repeating a complaint does not make it younger, and its end ends it") {
  LinkWatch watch = watch_of({"a", "b"});
  for (int second = 1; second <= 4; ++second) watch.reported(seconds(second), 0, {{1, false, ""}});
  CHECK(watch.verdict(seconds(5)));
  watch.reported(seconds(5), 0, {});
  CHECK_FALSE(watch.verdict(seconds(60)));
}

TEST_CASE("link watch: what was said before nobody listened has to be said again") {
  LinkWatch watch = watch_of({"a", "b"});
  watch.reported(seconds(1), 0, {{1, false, ""}});
  watch.forget();
  CHECK_FALSE(watch.suspected());
  CHECK_FALSE(watch.verdict(seconds(60)));
  watch.reported(seconds(61), 0, {{1, false, ""}});
  CHECK_FALSE(watch.verdict(seconds(64)));
  CHECK(watch.verdict(seconds(65)));
}

TEST_CASE("link watch: all ranks of two hosts make one sentence") {
  LinkWatch watch = watch_of(kTwoHosts);
  watch.reported(seconds(1), 0, {{2, true, ""}, {3, false, ""}});
  watch.reported(seconds(1), 1, {{2, false, ""}, {3, false, ""}});
  watch.reported(seconds(1), 3, {{0, false, ""}});
  const auto verdict = watch.verdict(seconds(3));
  REQUIRE(verdict);
  CHECK(verdict->words == "a cannot reach b, the other way works");
  CHECK(verdict->without == std::vector<std::string>{"b"});
  CHECK(verdict->rank == 2);
}

TEST_CASE("link watch: ranks that alternate between hosts are still two hosts") {
  LinkWatch watch = watch_of({"a", "b", "a", "b"});
  watch.reported(seconds(1), 2, {{1, true, ""}});
  watch.reported(seconds(1), 1, {{2, false, ""}});
  const auto verdict = watch.verdict(seconds(3));
  CHECK(verdict->words == "a cannot reach b, the other way works");
  CHECK(verdict->rank == 1);
}

TEST_CASE("link watch: the host that most others miss is done without, and as few as possible") {
  LinkWatch watch = watch_of({"a", "b", "c", "d"});
  watch.reported(seconds(1), 0, {{1, false, "x"}});
  watch.reported(seconds(1), 2, {{1, false, "x"}});
  const auto verdict = watch.verdict(seconds(5));
  CHECK(verdict->words == "a gets no answer from b (x); c gets no answer from b (x)");
  CHECK(verdict->without == std::vector<std::string>{"b"});
}

TEST_CASE("link watch: many cuts are counted, not listed") {
  LinkWatch watch = watch_of({"a", "b", "c", "d", "e"});
  watch.reported(seconds(1), 0,
                 {{1, false, "x"}, {2, false, "x"}, {3, false, "x"}, {4, false, "x"}});
  const auto verdict = watch.verdict(seconds(5));
  CHECK(verdict->words.ends_with("a gets no answer from d (x); and 1 more"));
  CHECK(verdict->without == std::vector<std::string>{"a"});
}

TEST_CASE("link watch: ranks of one host, or of nobody knows which") {
  LinkWatch one = watch_of({"a", "a"});
  one.reported(seconds(1), 0, {{1, false, ""}});
  one.reported(seconds(1), 1, {{0, false, ""}});
  CHECK(one.verdict(seconds(9))->words == "a (rank 0) and a (rank 1) cannot reach each other");
  CHECK(one.verdict(seconds(9))->without.empty());
  LinkWatch unknown = watch_of({});
  unknown.reported(seconds(1), 1, {{0, true, ""}});
  CHECK(unknown.verdict(seconds(9))->words == "rank 1 cannot reach rank 0, the other way works");
  CHECK(unknown.verdict(seconds(9))->without.empty());
}

}  // namespace
}  // namespace ds
