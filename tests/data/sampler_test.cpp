// The order of samples: a permutation per epoch, a function of seed and position alone.
#include "data/sampler.h"

#include <algorithm>
#include <set>
#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("a permutation visits every index once, for every small size", "[data]") {
  for (int64_t size = 1; size <= 130; ++size) {
    const Permutation permutation(size, 42);
    std::vector<int64_t> seen;
    for (int64_t i = 0; i < size; ++i) seen.push_back(permutation(i));
    std::sort(seen.begin(), seen.end());
    for (int64_t i = 0; i < size; ++i) REQUIRE(seen[static_cast<size_t>(i)] == i);
  }
  CHECK_THROWS_AS(Permutation(0, 1), InternalError);
  CHECK_THROWS_AS(Permutation(3, 1)(3), InternalError);
}

TEST_CASE("large permutations stay in range and rarely collide with the identity", "[data]") {
  const int64_t size = (int64_t{1} << 40) + 12345;
  const Permutation permutation(size, 7);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 2000; ++i) {
    const int64_t value = permutation(i);
    REQUIRE(value >= 0);
    REQUIRE(value < size);
    seen.insert(value);
  }
  CHECK(seen.size() == 2000);
}

TEST_CASE("over many keys each element lands everywhere about equally often", "[data]") {
  constexpr int64_t kSize = 8;
  constexpr int kKeys = 4000;
  std::vector<int> count(kSize * kSize);
  for (uint64_t key = 0; key < kKeys; ++key) {
    const Permutation permutation(kSize, key);
    for (int64_t i = 0; i < kSize; ++i) ++count[static_cast<size_t>(i * kSize + permutation(i))];
  }
  // Expected 500 with a standard deviation of 21.
  CHECK(*std::min_element(count.begin(), count.end()) > 400);
  CHECK(*std::max_element(count.begin(), count.end()) < 600);
}

TEST_CASE("of each epoch some samples may be left out, others in each", "[data]") {
  const Sampler all(10, SampleOrder::kShuffled, 7);
  const Sampler eight(10, SampleOrder::kShuffled, 7, 8);
  for (int64_t position = 0; position < 8; ++position) {
    CHECK(eight.sample_at(position) == all.sample_at(position));
    CHECK(eight.sample_at(8 + position) == all.sample_at(10 + position));
  }
  CHECK(eight.epoch_of(15) == 1);
  CHECK_THROWS_AS(Sampler(10, SampleOrder::kShuffled, 7, 11), InternalError);
}

TEST_CASE("sequential order is file order and wraps", "[data]") {
  const Sampler sampler(10, SampleOrder::kSequential, 1);
  for (int64_t p = 0; p < 25; ++p) CHECK(sampler.sample_at(p) == p % 10);
  CHECK(sampler.epoch_of(9) == 0);
  CHECK(sampler.epoch_of(10) == 1);
  CHECK_THROWS_AS(sampler.sample_at(-1), InternalError);
  CHECK_THROWS_AS(Sampler(0, SampleOrder::kSequential, 1), InternalError);
}

TEST_CASE("shuffled epochs are different permutations, fixed by the seed", "[data]") {
  const Sampler sampler(100, SampleOrder::kShuffled, 5);
  const Sampler same(100, SampleOrder::kShuffled, 5);
  const Sampler other(100, SampleOrder::kShuffled, 6);
  std::vector<std::vector<int64_t>> epochs(3);
  for (int64_t p = 0; p < 300; ++p) {
    CHECK(sampler.sample_at(p) == same.sample_at(p));
    epochs[static_cast<size_t>(p / 100)].push_back(sampler.sample_at(p));
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
  CHECK(epochs[0][0] + 100 * epochs[0][1] != other.sample_at(0) + 100 * other.sample_at(1));
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    for (int64_t i = 0; i < 100; ++i) REQUIRE(epoch[static_cast<size_t>(i)] == i);
  }
}

TEST_CASE("every rank layout covers the global batch exactly once", "[data]") {
  for (const auto& [micro, accumulation, ranks] :
       std::vector<std::array<int64_t, 3>>{{8, 1, 1}, {1, 8, 1}, {1, 1, 8}, {2, 2, 2}, {3, 2, 4}}) {
    const BatchShape shape{micro, accumulation, ranks};
    std::set<int64_t> seen;
    for (int64_t step = 0; step < accumulation; ++step) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        for (int64_t i = 0; i < micro; ++i) seen.insert(shape.first_index(step, rank) + i);
      }
    }
    CHECK(static_cast<int64_t>(seen.size()) == shape.global_batch());
    CHECK(*seen.rbegin() == shape.global_batch() - 1);
  }
}
