// When buckets are due, and which contributions are refused.
#include "zero/reduce/gradient_period.h"

#include <functional>
#include <string>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

// A bucket of two parameters, of which the first has two uses, and a bucket of one.
BucketLayout two_buckets() {
  return BucketLayout::build(
      std::vector<LayoutParam>{
          {.numel = 8, .unit = 0}, {.numel = 4, .unit = 0}, {.numel = 64, .unit = 1}},
      {.bucket_numel = 64, .group_size = 1});
}

// A contribution from its beginning to its end: whether its bucket is due.
bool contribute(GradientPeriod& period, const BucketLayout& layout, int param) {
  period.opens(layout.bucket_of(param));
  period.is_first(param);
  return period.is_due(param);
}

std::string said_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing";
}

TEST_CASE("a bucket is due with the last contribution of a micro-step", "[zero]") {
  const BucketLayout layout = two_buckets();
  REQUIRE(layout.buckets().size() == 2);
  REQUIRE(layout.bucket_of(0) == layout.bucket_of(1));
  MicroStepPeriod period(layout, {2, 1, 1}, 2);
  period.begin_step();
  for (const bool is_last : {false, true}) {
    CHECK(period.begins_sum() == !is_last);
    CHECK(period.completes_sum() == is_last);
    CHECK(period.opens(0));
    CHECK(period.is_first(0));
    CHECK_FALSE(period.is_due(0));
    CHECK_FALSE(period.opens(0));
    CHECK_FALSE(period.is_first(0));
    CHECK_FALSE(period.is_due(0));
    CHECK(contribute(period, layout, 1));
    CHECK(contribute(period, layout, 2));
    period.end_micro_step();
  }
  CHECK_FALSE(period.end_step());
  CHECK(period.reductions() == 2);
}

TEST_CASE("a period that is the step has all of it due at its end", "[zero]") {
  const BucketLayout layout = two_buckets();
  StepPeriod period(layout, {1, 1, 1}, 2);
  period.begin_step();
  for (const int param : {0, 0, 1, 2, 2, 1}) CHECK_FALSE(contribute(period, layout, param));
  period.end_micro_step();
  CHECK(period.begins_sum());
  CHECK(period.completes_sum());
  period.end_micro_step();
  CHECK(period.end_step());
  CHECK(period.reductions() == 1);
  period.require_sum(0);
}

TEST_CASE("contributions that are missing or doubled are refused by name", "[zero]") {
  const BucketLayout layout = two_buckets();
  MicroStepPeriod micro(layout, {2, 1, 1}, 1);
  micro.begin_step();
  contribute(micro, layout, 0);
  CHECK_THAT(said_by([&] { micro.end_micro_step(); }),
             Catch::Contains("parameter 0: 1 contributions in this micro-step, expected 2"));
  micro.begin_step();
  contribute(micro, layout, 1);
  CHECK_THAT(said_by([&] { contribute(micro, layout, 1); }),
             Catch::Contains("parameter 1: more contributions than the 1 announced"));
  micro.begin_step();
  CHECK_THAT(said_by([&] { micro.is_due(2); }), Catch::Contains("more contributions than the 1"));
  CHECK_THAT(said_by([&] { micro.end_step(); }), Catch::Contains("0 of 1 micro-steps"));
  CHECK_THAT(said_by([&] { micro.require_sum(2); }),
             Catch::Contains("parameter 2: no sum over micro-steps is kept"));

  StepPeriod step(layout, {2, 1, 1}, 2);
  step.begin_step();
  for (const int param : {0, 0, 0, 0, 1, 1, 2}) contribute(step, layout, param);
  CHECK_THAT(said_by([&] { step.end_step(); }),
             Catch::Contains("parameter 2: 1 contributions in this step, expected 2"));
}

TEST_CASE("a step that was not ended leaves nothing to the next", "[zero]") {
  const BucketLayout layout = two_buckets();
  MicroStepPeriod period(layout, {2, 1, 1}, 3);
  period.begin_step();
  contribute(period, layout, 0);
  period.repeat_micro_step();
  CHECK_FALSE(period.begins_sum());
  period.begin_step();
  CHECK(period.begins_sum());
  CHECK(period.opens(0));
  CHECK(period.is_first(0));
}

}  // namespace
}  // namespace ds
