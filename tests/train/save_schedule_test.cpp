#include "train/settings/save_schedule.h"

#include "tests/support/catch.h"

namespace ds {

TEST_CASE("saves are due every so many steps, and not at the last one, which is saved anyway",
          "[rankd]") {
  const SaveSchedule every_ten(10, 30);
  for (const int64_t step : {1, 9, 11, 30}) CHECK_FALSE(every_ten.wants(step));
  for (const int64_t step : {10, 20}) CHECK(every_ten.wants(step));
  const SaveSchedule never(0, 30);
  CHECK_FALSE(never.wants(10));
}

TEST_CASE("a save that failed is tried again after about 1, 2, 4 ... 60 seconds of steps",
          "[rankd]") {
  SaveSchedule schedule(100000, 1000000);
  int64_t step = 100000;
  for (const int64_t wait : {10, 20, 40, 80, 160, 320, 600, 600}) {  // at 0.1 s for a step
    REQUIRE(schedule.wants(step));
    REQUIRE(schedule.failed(step, 0.1));
    CHECK_FALSE(schedule.wants(step + wait - 1));
    CHECK(schedule.wants(step + wait));
    step += wait;
  }
  schedule.saved();
  CHECK_FALSE(schedule.wants(step + 10000));
  REQUIRE(schedule.failed(200000, 0.1));  // it begins from the shortest again
  CHECK(schedule.wants(200010));
}

TEST_CASE("steps that take longer than the wait are followed by a try each", "[rankd]") {
  SaveSchedule schedule(10, 1000);
  REQUIRE(schedule.failed(10, 5.0));
  CHECK(schedule.wants(11));
  REQUIRE(schedule.failed(11, 0));  // the time of a step is not known
  CHECK(schedule.wants(12));
}

TEST_CASE("tries in between do not count, saves that were due do", "[rankd]") {
  SaveSchedule schedule(10, 1000);
  CHECK(schedule.failed(10, 1.0));
  for (int64_t step = 11; step < 20; ++step) CHECK(schedule.failed(step, 1.0));
  CHECK(schedule.failed(20, 1.0));
  CHECK_FALSE(schedule.failed(30, 1.0));
  SaveSchedule healed(10, 1000);
  CHECK(healed.failed(10, 1.0));
  CHECK(healed.failed(20, 1.0));
  healed.saved();
  CHECK(healed.failed(30, 1.0));
  CHECK(healed.failed(40, 1.0));
  CHECK_FALSE(healed.failed(50, 1.0));
}

}  // namespace ds
