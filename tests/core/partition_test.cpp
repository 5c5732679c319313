// Cuts of a row of items.
#include "core/values/partition.h"

#include <limits>
#include <tuple>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Bounds = std::vector<int64_t>;

TEST_CASE("a uniform cut gives the surplus to the first parts", "[core]") {
  CHECK(partition_uniform(10, 4) == Bounds{0, 3, 6, 8, 10});
  CHECK(partition_uniform(2, 4) == Bounds{0, 1, 2, 2, 2});
  CHECK(partition_uniform(0, 2) == Bounds{0, 0, 0});
  CHECK_THROWS_AS(partition_uniform(4, 0), InternalError);
}

TEST_CASE("a balanced cut keeps the heaviest item alone", "[core]") {
  const double front[] = {0.0, 1.1, 1.9, 3.0, 30.0};
  CHECK(partition_balanced(front, 2) == Bounds{0, 4, 5});
  const double middle[] = {0.0, 1.1, 30, 3.0};
  CHECK(partition_balanced(middle, 3) == Bounds{0, 2, 3, 4});
  const double few[] = {1, 1};
  CHECK(partition_balanced(few, 4) == Bounds{0, 1, 2, 2, 2});
}

// Smallest possible spread of part sums, by trying every cut.
double best_spread(std::span<const double> weights, int parts, size_t from, double low,
                   double high) {
  if (parts == 1) {
    double sum = 0;
    for (size_t i = from; i < weights.size(); ++i) sum += weights[i];
    return std::max(high, sum) - std::min(low, sum);
  }
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t end = from + 1; end + static_cast<size_t>(parts) - 1 <= weights.size(); ++end) {
    sum += weights[end - 1];
    best = std::min(best,
                    best_spread(weights, parts - 1, end, std::min(low, sum), std::max(high, sum)));
  }
  return best;
}

TEST_CASE("a balanced cut in two is as even as any", "[core]") {
  const double weights[] = {6, 9, 5, 4, 8, 2, 3, 8, 7, 1, 4};
  for (const int parts : {2}) {
    const Bounds bounds = partition_balanced(weights, parts);
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (size_t p = 0; p + 1 < bounds.size(); ++p) {
      double sum = 0;
      for (int64_t i = bounds[p]; i < bounds[p + 1]; ++i) sum += weights[i];
      low = std::min(low, sum);
      high = std::max(high, sum);
    }
    CHECK(high - low == best_spread(weights, parts, 0, std::numeric_limits<double>::infinity(), 0));
  }
}

TEST_CASE("pieces of rounded-up size end at the last element", "[core]") {
  CHECK(ceil_piece(9, 4, 0).numel == 3);
  CHECK(ceil_piece(9, 4, 3).numel == 0);
  CHECK(ceil_piece(9, 4, 3).offset == 9);
  CHECK(ceil_piece(0, 2, 1).numel == 0);
  CHECK_THROWS_AS(ceil_piece(9, 4, 4), InternalError);
}

TEST_CASE("prefix sums include their own item", "[core]") {
  const double weights[] = {3, 4, 5};
  CHECK(prefix_sums(weights) == std::vector<double>{3, 7, 12});
  CHECK(prefix_sums({}).empty());
}

TEST_CASE("a uniform cut covers all items in parts that differ by one at most", "[core]") {
  for (int64_t items = 0; items < 30; ++items) {
    for (int parts = 1; parts < 9; ++parts) {
      const Bounds bounds = partition_uniform(items, parts);
      REQUIRE(bounds.size() == static_cast<size_t>(parts) + 1);
      CHECK(bounds.front() == 0);
      CHECK(bounds.back() == items);
      for (size_t p = 0; p + 1 < bounds.size(); ++p) {
        const int64_t size = bounds[p + 1] - bounds[p];
        REQUIRE((size == items / parts || size == items / parts + 1));
        // The larger ones come first.
        if (p > 0) REQUIRE(size <= bounds[p] - bounds[p - 1]);
      }
    }
  }
  CHECK_THROWS_WITH(partition_uniform(-1, 2), Catch::Contains("-1 items in 2 parts"));
}

TEST_CASE("a balanced cut of any weights is a cut without empty parts, in two as even as any",
          "[core]") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Rng rng(seed, "weights");
    std::vector<double> weights(5 + seed % 9);
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<double>(1 + rng.bits(i) % 50);
    }
    for (const int parts : {1, 2, 3, 4}) {
      const Bounds bounds = partition_balanced(weights, parts);
      REQUIRE(bounds.size() == static_cast<size_t>(parts) + 1);
      CHECK(bounds.front() == 0);
      CHECK(bounds.back() == static_cast<int64_t>(weights.size()));
      double low = infinity, high = 0;
      for (size_t p = 0; p + 1 < bounds.size(); ++p) {
        REQUIRE(bounds[p] < bounds[p + 1]);
        double sum = 0;
        for (int64_t i = bounds[p]; i < bounds[p + 1]; ++i) sum += weights[static_cast<size_t>(i)];
        low = std::min(low, sum);
        high = std::max(high, sum);
      }
      if (parts <= 2) CHECK(high - low == best_spread(weights, parts, 0, infinity, 0));
    }
  }
}

TEST_CASE("of equally even cuts the one that ends its first parts latest is taken", "[core]") {
  const double weights[] = {2, 0, 0, 2};
  CHECK(partition_balanced(weights, 2) == Bounds{0, 3, 4});
  const double zeros[] = {0, 0, 0};
  CHECK(partition_balanced(zeros, 2) == Bounds{0, 2, 3});
  CHECK_THROWS_WITH(partition_balanced(weights, 0), Catch::Contains("0 parts, expected 1 or more"));
}

TEST_CASE("pieces of rounded-up size lie end to end and cover everything", "[core]") {
  for (int64_t numel = 0; numel < 25; ++numel) {
    for (int count = 1; count < 8; ++count) {
      int64_t end = 0;
      for (int index = 0; index < count; ++index) {
        const PartRange piece = ceil_piece(numel, count, index);
        REQUIRE(piece.offset == end);
        REQUIRE(piece.numel >= 0);
        REQUIRE(piece.numel <= (numel + count - 1) / count);
        end += piece.numel;
      }
      REQUIRE(end == numel);
    }
  }
  for (const auto& [numel, count, index] :
       {std::tuple<int64_t, int, int>{-1, 1, 0}, {4, 0, 0}, {4, 2, -1}, {4, 2, 2}}) {
    CHECK_THROWS_WITH(ceil_piece(numel, count, index),
                      Catch::Contains(fmt::format("piece {} of {} of {}", index, count, numel)));
  }
}

}  // namespace
}  // namespace ds
