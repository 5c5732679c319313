#include "launcher/report/goodput.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

StepMetrics step_of(int64_t step, Metrics values) {
  return {.step = step, .total_steps = 10, .values = std::move(values)};
}

}  // namespace

TEST_CASE("what stands is productive, what is trained again is lost", "[launcher]") {
  GoodputAccount account;
  account.step(step_of(1, {{"step_s", 2}, {"starting_s", 3}}));
  account.step(step_of(2, {{"step_s", 2}, {"evaluation_s", 1}}));
  account.committed(0.5);
  account.step(step_of(3, {{"step_s", 2}}));
  account.step(step_of(4, {{"step_s", 2}}));
  account.step(step_of(3, {{"step_s", 2.5}, {"starting_s", 4}}));  // a fault, and on from step 2
  account.step(step_of(4, {{"step_s", 2}, {"paused_s", 6}}));
  const Goodput total = account.total(std::chrono::seconds(40));
  CHECK(total.productive == Approx(8.5));
  CHECK(total.lost == Approx(4));
  CHECK(total.evaluation == Approx(1));
  CHECK(total.checkpoint == Approx(0.5));
  CHECK(total.waiting == Approx(6));
  CHECK(total.starting == Approx(7));
  CHECK(total.other == Approx(13));
  CHECK(total.share() == Approx(8.5 / 40));
}

TEST_CASE("a run that goes on counts its own steps, and one that begins anew none before",
          "[launcher]") {
  GoodputAccount account;
  account.step(step_of(100, {{"step_s", 1}}));
  account.step(step_of(101, {{"step_s", 1}}));
  CHECK(account.total(std::chrono::seconds(2)).productive == Approx(2));
  account.step(step_of(1, {{"step_s", 1}}));
  const Goodput total = account.total(std::chrono::seconds(3));
  CHECK(total.productive == Approx(1));
  CHECK(total.lost == Approx(2));
  CHECK(total.other == Approx(0));
}

TEST_CASE("a run without a step has no share", "[launcher]") {
  CHECK(GoodputAccount().total(Time{}).share() == 0);
  CHECK(GoodputAccount().total(std::chrono::seconds(5)).other == Approx(5));
}

}  // namespace ds
