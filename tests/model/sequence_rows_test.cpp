// Which rows of a sequence are on which rank: every one once, and with a ring as much to look at on
// every rank.
#include "model/parallel/sequence_rows.h"

#include <numeric>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::vector<int64_t> positions_of(int ring, int part, int parts, int64_t length) {
  std::vector<int64_t> all;
  for (const RowBlock& block :
       row_blocks(length, length, positions_of_part(ring, part, parts, length))) {
    CHECK(block.row == static_cast<int64_t>(all.size()));
    for (int64_t i = 0; i < block.rows; ++i) all.push_back(block.first_position + i);
  }
  return all;
}

TEST_CASE("parts of a sequence follow each other, pieces of a ring meet in its middle", "[model]") {
  using Rows = std::vector<int64_t>;
  CHECK(positions_of(1, 1, 2, 4) == Rows{4, 5, 6, 7});
  CHECK(positions_of(2, 0, 2, 4) == Rows{0, 1, 6, 7});
  CHECK(positions_of(2, 1, 2, 4) == Rows{2, 3, 4, 5});
  CHECK(positions_of(1, 0, 1, 4) == Rows{0, 1, 2, 3});
  CHECK_THROWS_WITH(positions_of_part(2, 0, 2, 3), Catch::Contains("3 rows of a sequence"));
}

TEST_CASE("all parts together have every row once, those of a ring see equally much", "[model]") {
  for (const int parts : {1, 2, 4, 8}) {
    for (const int ring : {1, parts}) {
      std::vector<int> seen(48);
      std::vector<int64_t> pairs;
      for (int part = 0; part < parts; ++part) {
        int64_t keys = 0;
        for (const int64_t position : positions_of(ring, part, parts, 48 / parts)) {
          ++seen[static_cast<size_t>(position)];
          keys += position + 1;
        }
        pairs.push_back(keys);
      }
      CHECK(seen == std::vector<int>(48, 1));
      if (ring == parts) {
        CHECK(pairs == std::vector<int64_t>(pairs.size(), 48 * 49 / 2 / parts));
      }
    }
  }
}

TEST_CASE("neighbours share what a rank of a ring has, in its order", "[model]") {
  for (const int ring : {2, 3}) {
    for (const int sharers : {1, 2, 3, 4}) {
      const int64_t shared = 24;
      for (int place = 0; place < ring; ++place) {
        CAPTURE(ring, sharers, place);
        std::vector<int64_t> together;
        for (int i = 0; i < sharers; ++i) {
          const auto rows =
              positions_of(ring, place * sharers + i, ring * sharers, shared / sharers);
          together.insert(together.end(), rows.begin(), rows.end());
        }
        CHECK(together == positions_of(ring, place, ring, shared));
      }
    }
  }
  CHECK_THROWS_WITH(positions_of_part(2, 0, 6, 1), Catch::Contains("3 rows of a sequence"));
}

TEST_CASE("rows of several sequences are blocks whose positions follow each other", "[model]") {
  const std::vector<RowBlock> whole = row_blocks(12, 4, Positions(8));
  REQUIRE(whole.size() == 1);
  CHECK(whole.front().rows == 12);
  CHECK(whole.front().length == 4);
  CHECK(whole.front().first_position == 8);
  const std::vector<RowBlock> halves = row_blocks(8, 4, Positions(2, 12));
  REQUIRE(halves.size() == 4);
  const std::vector<std::pair<int64_t, int64_t>> expected{{0, 2}, {4, 2}, {2, 12}, {6, 12}};
  for (size_t i = 0; i < halves.size(); ++i) {
    CHECK(halves[i].row == expected[i].first);
    CHECK(halves[i].first_position == expected[i].second);
    CHECK(halves[i].rows == 2);
    CHECK(halves[i].length == 2);
  }
}

}  // namespace
}  // namespace ds
