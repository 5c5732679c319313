// The pieces of ZenFlow: when what happens, which columns are chosen and where their elements lie,
// and work that is waited for later.
#include <set>

#include "core/values/index.h"
#include "tests/support/catch.h"
#include "tests/support/test_stream.h"
#include "zero/zenflow/columns.h"
#include "zero/zenflow/deferred_update.h"
#include "zero/zenflow/schedule.h"

namespace ds {
namespace {

using Numbers = std::vector<int64_t>;

template <class When>
Numbers updates_with(const When& when) {
  Numbers all;
  for (int64_t update = 1; update <= 12; ++update) {
    if (when(update)) all.push_back(update);
  }
  return all;
}

TEST_CASE("columns are chosen after the warm-up, and anew where an interval begins", "[zero]") {
  const auto selecting = [](const ZenflowOptions& options) {
    return updates_with([&](int64_t update) { return selects_at(options, update); });
  };
  CHECK(selecting({}) == Numbers{1});
  CHECK(selecting({.warm_up = 3}) == Numbers{4});
  CHECK(selecting({.select_every = 4}) == Numbers{1, 5, 9});
  CHECK(selecting({.select_every = 4, .warm_up = 6}) == Numbers{7, 9});
  CHECK(selecting({.warm_up = 12}).empty());
}

TEST_CASE("an interval ends by its length after the warm-up, and before columns are chosen",
          "[zero]") {
  const auto ending = [](const ZenflowOptions& options) {
    return updates_with([&](int64_t update) {
      return !warms_up(options, update) && ends_interval(options, update);
    });
  };
  CHECK(ending({}).empty());
  CHECK(ending({.update_every = 5}) == Numbers{5, 10});
  CHECK(ending({.update_every = 5, .warm_up = 2}) == Numbers{7, 12});
  CHECK(ending({.select_every = 6, .update_every = 5}) == Numbers{5, 6, 10, 12});
  CHECK(ending({.select_every = 6}) == Numbers{6, 12});
}

TEST_CASE("a plan shows an update that is like most others", "[zero]") {
  CHECK(usual_update({}) == 2);
  CHECK(usual_update({.update_every = 2, .warm_up = 3}) == 6);
  CHECK(usual_update({.update_every = 1}) == 2);  // all are alike
}

TEST_CASE("the columns with the largest squares are chosen, of equal ones the first", "[zero]") {
  using Chosen = std::vector<uint8_t>;
  CHECK(choose_columns(std::vector<double>{1, 5, 3, 4}, 2) == Chosen{0, 1, 0, 1});
  CHECK(choose_columns(std::vector<double>{2, 2, 2, 2}, 3) == Chosen{1, 1, 1, 0});
  CHECK(choose_columns(std::vector<double>{1, 2}, 2) == Chosen{1, 1});
  CHECK(important_columns(768, 0.1) == 76);
  CHECK(important_columns(5, 0.1) == 1);
  CHECK(important_columns(7, 1) == 7);
}

TEST_CASE("elements of chosen columns are found in any range of a matrix", "[zero]") {
  constexpr int64_t kColumns = 5, kRows = 4;
  for (unsigned mask = 1; mask < 1U << kColumns; ++mask) {
    std::vector<uint8_t> chosen;
    int64_t count = 0;
    for (int64_t c = 0; c < kColumns; ++c) {
      chosen.push_back(mask >> c & 1U);
      count += chosen.back();
    }
    for (int64_t first = 0; first < kColumns * kRows; ++first) {
      for (int64_t numel = 1; first + numel <= kColumns * kRows; ++numel) {
        const MatrixPart part{.first = first, .numel = numel, .columns = kColumns};
        std::vector<int32_t> places, expected;
        append_places(part, chosen, 100, places);
        for (int64_t i = 0; i < numel; ++i) {
          if (nth(chosen, (first + i) % kColumns) != 0) {
            expected.push_back(narrow<int32_t>(100 + i));
          }
        }
        REQUIRE(places == expected);
        REQUIRE(narrow<int64_t>(places.size()) <= most_places(part, count));
      }
    }
  }
  // A whole matrix has that many.
  CHECK(most_places({.first = 0, .numel = kColumns * kRows, .columns = kColumns}, 2) == 8);
}

TEST_CASE("sizes are roots of mean squares of either kind of element", "[zero]") {
  const GradientSizes sizes =
      sizes_of(std::vector<double>{8, 1, 1}, std::vector<uint8_t>{1, 0, 0}, 2);
  CHECK(sizes.important == 2);
  CHECK(sizes.rest == Approx(std::sqrt(0.5)));
  CHECK(sizes_of(std::vector<double>{8}, std::vector<uint8_t>{1}, 2).rest == 0);
}

TEST_CASE("late work is done when it is waited for, and its error is thrown there", "[zero]") {
  HostMemory heap;
  ThreadPool pool{1};
  Stream stream{{.device = Device::cpu(), .memory = &heap, .pool = &pool}};
  DeferredUpdate late(stream);
  late.end();  // nothing has begun
  int done = 0;
  late.begin([&](Stream&) { ++done; });
  CHECK_THROWS_WITH(late.begin([](Stream&) {}), Catch::Contains("begun while other work"));
  late.end();
  CHECK(done == 1);
  late.begin([](Stream&) { throw ValidationError("it is not what it should be"); });
  CHECK_THROWS_AS(late.end(), ValidationError);
  late.end();  // it is thrown once
  late.begin([&](Stream&) { ++done; });
  late.end();
  CHECK(done == 2);
}

TEST_CASE("late work that nobody waits for is finished before it goes", "[zero]") {
  HostMemory heap;
  ThreadPool pool{1};
  Stream stream{{.device = Device::cpu(), .memory = &heap, .pool = &pool}};
  int done = 0;
  {
    DeferredUpdate late(stream);
    late.begin([&](Stream&) { ++done; });
  }
  CHECK(done == 1);
}

}  // namespace
}  // namespace ds
