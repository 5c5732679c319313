// Random subsets.
#include "core/sample.h"

#include <algorithm>

#include "core/error.h"
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
