// Random subsets.
#include "core/values/sample.h"

#include <algorithm>
#include <map>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("a random subset is ascending, of the asked size, and every number equally likely",
          "[core]") {
  const Rng rng(7, "sample");
  std::vector<int> taken(10, 0);
  for (uint64_t step = 0; step < 4000; ++step) {
    const std::vector<int32_t> kept = random_subset(rng.derive(step), 10, 4);
    REQUIRE(kept.size() == 4);
    CHECK(std::is_sorted(kept.begin(), kept.end()));
    CHECK(std::adjacent_find(kept.begin(), kept.end()) == kept.end());
    for (const int32_t position : kept) ++taken[static_cast<size_t>(position)];
  }
  for (const int count : taken) CHECK(std::abs(count - 1600) < 160);  // 5 standard deviations
  CHECK(random_subset(rng, 5, 5) == std::vector<int32_t>{0, 1, 2, 3, 4});
  CHECK(random_subset(rng, 5, 0).empty());
  CHECK_THROWS_AS(random_subset(rng, 5, 6), InternalError);
}

TEST_CASE("a subset of any size is ascending, complete and the generator's own", "[core]") {
  const Rng rng(8, "sample");
  for (int64_t length = 0; length < 12; ++length) {
    for (int64_t count = 0; count <= length; ++count) {
      const Rng mine = rng.derive(static_cast<uint64_t>(100 * length + count));
      const std::vector<int32_t> subset = random_subset(mine, length, count);
      REQUIRE(subset.size() == static_cast<size_t>(count));
      REQUIRE(subset == random_subset(mine, length, count));
      for (size_t i = 0; i < subset.size(); ++i) {
        REQUIRE(subset[i] >= 0);
        REQUIRE(subset[i] < length);
        if (i > 0) REQUIRE(subset[i - 1] < subset[i]);
      }
    }
  }
  CHECK_THROWS_WITH(random_subset(rng, 5, -1), Catch::Contains("-1 of 5 numbers"));
}

TEST_CASE("every pair of five numbers is drawn equally often", "[core]") {
  const Rng rng(9, "pairs");
  std::map<std::vector<int32_t>, int> drawn;
  for (uint64_t i = 0; i < 5000; ++i) ++drawn[random_subset(rng.derive(i), 5, 2)];
  CHECK(drawn.size() == 10);
  for (const auto& [pair, times] : drawn) CHECK(std::abs(times - 500) < 110);  // 5 deviations
}
