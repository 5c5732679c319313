#include "train/step/results.h"

#include "core/memory/adaptors.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

struct Scalars {
  HostMemory host;
  ThreadPool pool{1};
  Stream stream{{.device = Device::cpu(), .memory = &host, .pool = &pool}};
  StepScalars scalars{1, stream};

  void finish(double norm) { scalars.write({.sums = {}, .norm = norm}); }
};

TEST_CASE("outcomes come in order, each as it was when its step was added", "[train]") {
  Scalars s;
  StepResults results(1);
  int64_t taken = 0;
  for (int64_t step = 1; step <= 5; ++step) {
    s.finish(static_cast<double>(step));
    results.add(step, s.scalars);
    if (step == 1) continue;  // from here on, one is always left
    const std::optional<StepResults::Entry> entry = results.take(Wait::kYes);
    REQUIRE(entry);
    CHECK(entry->step == ++taken);
    CHECK(entry->outcome.norm == static_cast<double>(taken));
    CHECK(results.count() == 1);
  }
}

TEST_CASE("who does not wait gets no result that is late", "[train]") {
  Scalars s;
  StepResults late(1), at_once(0);
  CHECK_FALSE(at_once.take(Wait::kNo));
  CHECK_FALSE(at_once.take(Wait::kYes));
  at_once.add(1, s.scalars);
  CHECK(at_once.take(Wait::kNo)->step == 1);
  late.add(1, s.scalars);
  CHECK_FALSE(late.take(Wait::kNo));
  late.add(2, s.scalars);
  CHECK(late.take(Wait::kNo)->step == 1);
  CHECK_FALSE(late.take(Wait::kNo));
  CHECK(late.take(Wait::kYes)->step == 2);
}

TEST_CASE("there is room for two steps under way, and again when they are dropped", "[train]") {
  Scalars s;
  StepResults results(1);
  results.add(4, s.scalars);
  results.add(5, s.scalars);
  CHECK_THROWS_AS(results.require_room(), InternalError);
  CHECK_THROWS_WITH(results.add(6, s.scalars),
                    Catch::Contains("2 steps are under way, take the result of step 4 first"));
  results.drop_all();
  CHECK(results.count() == 0);
  CHECK_NOTHROW(results.require_room());
  results.add(4, s.scalars);
  CHECK(results.take(Wait::kYes)->step == 4);
}

TEST_CASE("results are at most as late as there is room for", "[train]") {
  for (const int late : {-1, StepResults::kMost}) CHECK_THROWS_AS(StepResults(late), InternalError);
}

}  // namespace
}  // namespace ds
