// Who is stuck, and where.
#include "launcher/decide/watch/hang_watch.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

using std::chrono::seconds;

RankProgress at(int64_t step, const std::string& phase, uint64_t number, bool inside) {
  return {step, 0, phase, {number, "data", number, "all_gather", inside}};
}

}  // namespace

TEST_CASE("the culprit is the rank that did not enter the collective", "[launcher]") {
  HangWatch watch({}, 3);
  // Rank 1 stopped last, but it is the one the others wait for.
  watch.progressed(seconds(0), 0, at(4, "train", 57, true));
  watch.progressed(seconds(1), 2, at(4, "train", 57, true));
  watch.progressed(seconds(2), 1, at(4, "train", 56, false));
  CHECK_FALSE(watch.hung(seconds(31)));
  CHECK(watch.next_deadline() == seconds(32));
  const auto hang = watch.hung(seconds(33));
  REQUIRE(hang);
  CHECK(hang->rank == 1);
  CHECK(hang->words ==
        "no progress for 31.0 s in step 5, train; it has not entered all_gather #57 of data, where "
        "rank 0 waits");
}

TEST_CASE("equal reports are no progress, any change is", "[launcher]") {
  HangWatch watch({}, 1);
  for (int second = 0; second <= 40; ++second) {
    watch.progressed(seconds(second), 0, at(4, "train", 8, false));
  }
  CHECK(watch.hung(seconds(40)));
  watch.progressed(seconds(40), 0, at(4, "train", 9, false));
  CHECK_FALSE(watch.hung(seconds(70)));
  watch.forgive(seconds(5));
  CHECK_FALSE(watch.hung(seconds(75)));
  CHECK(watch.hung(seconds(76)));
  watch.left(0);
  CHECK_FALSE(watch.hung(seconds(500)));
}

TEST_CASE("slow steps and slow phases have longer bounds", "[launcher]") {
  HangWatch watch({}, 1);
  for (int step = 0; step <= 10; ++step)
    watch.progressed(seconds(20 * step), 0, at(step, "train", 1, false));
  CHECK_FALSE(watch.hung(seconds(200 + 99)));
  CHECK(watch.hung(seconds(200 + 101)));
  watch.progressed(seconds(301), 0, at(10, "save", 1, false));
  CHECK_FALSE(watch.hung(seconds(301 + 1700)));
  CHECK(watch.hung(seconds(301 + 1801)));
}

TEST_CASE("ranks that are all inside collectives block each other", "[launcher]") {
  HangWatch watch({}, 2);
  watch.progressed(seconds(0), 0, at(4, "train", 58, true));
  watch.progressed(seconds(0), 1, at(4, "train", 57, true));
  CHECK_FALSE(watch.awaited(seconds(99)));
  const auto hang = watch.hung(seconds(31));
  REQUIRE(hang);
  CHECK(hang->rank == 1);
  CHECK(hang->words.find("inside all_gather #57 of data") != std::string::npos);
}

TEST_CASE("who waits for somebody that works is patient", "[launcher]") {
  HangWatch watch({}, 2);
  watch.progressed(seconds(0), 0, at(4, "train", 58, true));
  watch.progressed(seconds(0), 1, at(4, "evaluate", 57, false));
  CHECK_FALSE(watch.hung(seconds(900)));
  const auto awaited = watch.awaited(seconds(3));
  REQUIRE(awaited);
  CHECK(awaited->rank == 1);
}

TEST_CASE("a place counts micro-steps as parts of a step, and other things in words",
          "[launcher]") {
  const auto place = [](const std::string& phase, int64_t count, int64_t total) {
    RankProgress progress{4, count, phase, {}};
    progress.total = total;
    return place_of(progress);
  };
  CHECK(place("train", 2, 0) == "at step 4.2 train");
  CHECK(place("evaluate", 36, 40) == "at step 4 evaluate, batch 36 of 40");
  CHECK(place("evaluate", 0, 40) == "at step 4 evaluate");
  CHECK(place("save", 45, 44) == "at step 4 save, MiB 45");
  CHECK(place("sample", 7, 16) == "at step 4 sample, token 7 of 16");
}

}  // namespace ds
