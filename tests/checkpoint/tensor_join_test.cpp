// How the parts of tensor-parallel ranks are joined.

#include "checkpoint/cuts/tensor_join.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds::deepspeed {
namespace {

// The whole as rank * 100 + element of the first holder's tensor, element by element.
std::vector<int64_t> sources(const TensorJoin& join) {
  int64_t numel = 1;
  for (const int64_t extent : join.shape) numel *= extent;
  std::vector<int64_t> found;
  while (std::ssize(found) < numel) {
    const JoinedPiece piece = piece_at(join, std::ssize(found));
    const JoinedRun::Holder& holder = piece.holders.front();
    for (int64_t i = 0; i < piece.numel; ++i) {
      found.push_back(static_cast<int64_t>(holder.rank) * 100 + first_of(join, piece, holder) + i);
    }
  }
  return found;
}

std::string why_not(const CutRule& rule, const std::vector<Extents>& shapes) {
  try {
    join_of(rule, shapes);
  } catch (const DataError& error) {
    return error.what();
  }
  return "joined";
}

const std::vector<Extents> kTwoByTwo{{2, 2}, {2, 2}};

TEST_CASE("parts are joined along the first axis or along another", "[checkpoint]") {
  const TensorJoin rows = join_of(CutRule{}, kTwoByTwo);
  CHECK(rows.shape == Extents{4, 2});
  CHECK(sources(rows) == std::vector<int64_t>{0, 1, 2, 3, 100, 101, 102, 103});
  const TensorJoin columns = join_of(CutRule{.axis = 1}, kTwoByTwo);
  CHECK(columns.shape == Extents{2, 4});
  CHECK(sources(columns) == std::vector<int64_t>{0, 1, 100, 101, 2, 3, 102, 103});
  const TensorJoin uneven = join_of(CutRule{.axis = 1}, std::vector<Extents>{{2, 1}, {2, 2}});
  CHECK(uneven.shape == Extents{2, 3});
  CHECK(sources(uneven) == std::vector<int64_t>{0, 100, 101, 1, 102, 103});
}

TEST_CASE("sub-parameters are joined each by itself", "[checkpoint]") {
  const std::vector<int64_t> halves{0, 100, 1, 101};
  const std::vector<Extents> shapes{{2}, {2}};
  CHECK(sources(join_of(CutRule{.equal_parts = 2}, shapes)) == halves);
  CHECK(sources(join_of(CutRule{.sizes = {2, 2}}, shapes)) == halves);
  CHECK(sources(join_of(CutRule{.widths = {{1, 1}, {1, 1}}}, shapes)) == halves);
  // One rank has no key of its own.
  const std::vector<Extents> uneven{{3}, {1}};
  CHECK(sources(join_of(CutRule{.widths = {{2, 1}, {1, 0}}}, uneven)) ==
        std::vector<int64_t>{0, 1, 100, 2});
}

TEST_CASE("sub-parameters count in the shape that a rule views them in", "[checkpoint]") {
  const CutRule rule{.sizes = {2, 2}, .view = {4, -1}};
  const TensorJoin join = join_of(rule, std::vector<Extents>{{6}, {6}});
  CHECK(join.shape == Extents{4, 3});
  CHECK(sources(join) == std::vector<int64_t>{0, 1, 2, 100, 101, 102, 3, 4, 5, 103, 104, 105});
  CHECK(why_not({.sizes = {2, 2}, .view = {4, -1}}, {{5}, {5}}) != "joined");
  CHECK(why_not({.sizes = {2, 2}, .view = {4, -1, -1}}, {{6}, {6}}) != "joined");
}

TEST_CASE("what all ranks have is that of the first, and all of them hold it", "[checkpoint]") {
  const TensorJoin same = join_of(CutRule{.kind = CutRule::Kind::kSame}, kTwoByTwo);
  CHECK(same.shape == Extents{2, 2});
  CHECK(sources(same) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(piece_at(same, 1).holders.size() == 2);
  CHECK_FALSE(same.is_mean);
  CHECK(join_of(CutRule{.kind = CutRule::Kind::kMean}, kTwoByTwo).is_mean);
}

TEST_CASE("rows behind those of a vocabulary are left out", "[checkpoint]") {
  const TensorJoin cut = join_of(CutRule{.rows = 3}, kTwoByTwo);
  CHECK(cut.shape == Extents{3, 2});
  CHECK(sources(cut) == std::vector<int64_t>{0, 1, 2, 3, 100, 101});
  const TensorJoin first_alone = join_of(CutRule{.rows = 2}, kTwoByTwo);
  CHECK(sources(first_alone) == std::vector<int64_t>{0, 1, 2, 3});
  const TensorJoin same = join_of(CutRule{.kind = CutRule::Kind::kSame, .rows = 1}, kTwoByTwo);
  CHECK(sources(same) == std::vector<int64_t>{0, 1});
  CHECK_THAT(why_not({.rows = 5}, kTwoByTwo), Catch::Contains("fewer than 5 rows"));
}

TEST_CASE("parts that do not fit a rule are refused with their shapes", "[checkpoint]") {
  CHECK_THAT(why_not({}, {{2, 2}, {2, 3}}),
             Catch::Contains("[2, 2] and [2, 3], which cannot be joined along axis 0"));
  CHECK_THAT(why_not({.kind = CutRule::Kind::kSame}, {{2}, {3}}), Catch::Contains("equal ones"));
  CHECK_THAT(why_not({.axis = 1}, {{2}, {2}}), Catch::Contains("no such axis"));
  CHECK_THAT(why_not({.equal_parts = 2}, {{3}, {3}}), Catch::Contains("no 2 equal"));
  CHECK_THAT(why_not({.equal_parts = 0}, {{3}, {3}}), Catch::Contains("no sub-parameters"));
  CHECK_THAT(why_not({.sizes = {3}}, {{1}, {2}}), Catch::Contains("cannot share 3 evenly"));
  CHECK_THAT(why_not({.widths = {{1, 1}}}, {{2}, {1}}), Catch::Contains("have 1 and 1"));
  CHECK_THAT(why_not({.widths = {{1}}}, {{1}, {1}}), Catch::Contains("over 1 ranks"));
}

FamilyCut halves_of(const Shape& whole, size_t axis) {
  FamilyCut cut{.whole = whole};
  const int64_t half = whole[static_cast<int>(axis)] / 2;
  for (int64_t rank = 0; rank < 2; ++rank) {
    Cut own;
    for (int i = 0; i < whole.rank(); ++i) own.axes.push_back({{0, whole[i]}});
    own.axes[axis] = {{rank * half, (rank + 1) * half}};
    cut.ranks.push_back(own);
  }
  return cut;
}

TEST_CASE("numbers that no tensor has are refused and not computed with", "[checkpoint]") {
  using Catch::Contains;
  constexpr int64_t kHuge = int64_t{1} << 48;
  CHECK_THAT(why_not({.equal_parts = kHuge}, {{0}, {0}}), Contains("equal sub-parameters"));
  CHECK_THAT(why_not({.equal_parts = kHuge}, {{2}, {2}}), Contains("equal sub-parameters"));
  CHECK_THAT(why_not({.view = {4, kHuge, kHuge, kHuge}}, kTwoByTwo), Contains("is too large"));
  CHECK_THAT(why_not({.view = {-1, kHuge, kHuge}}, kTwoByTwo), Contains("too large"));
  CHECK_THAT(why_not({.rows = -1}, kTwoByTwo), Contains("fewer than -1 rows"));
  CHECK_THAT(why_not({.widths = {{kHuge, 1}}}, kTwoByTwo), Contains("sub-parameters have"));
}

TEST_CASE("without a rule parts are joined as the family cuts them", "[checkpoint]") {
  CHECK(sources(join_of(halves_of({2, 4}, 1), kTwoByTwo)) ==
        std::vector<int64_t>{0, 1, 100, 101, 2, 3, 102, 103});
  // Packed projections are cut in several places.
  const FamilyCut packed{.whole = {4}, .ranks = {{{{{0, 1}, {2, 3}}}}, {{{{1, 2}, {3, 4}}}}}};
  CHECK(sources(join_of(packed, std::vector<Extents>{{2}, {2}})) ==
        std::vector<int64_t>{0, 100, 1, 101});
  CHECK_THROWS_AS(join_of(packed, std::vector<Extents>{{1}, {3}}), DataError);
}

TEST_CASE("a writer may cut otherwise than the family: nowhere, unevenly, with padding",
          "[checkpoint]") {
  const FamilyCut rows = halves_of({4, 2}, 0);
  CHECK(sources(join_of(rows, std::vector<Extents>{{4, 2}, {4, 2}})).size() == 8);
  CHECK(sources(join_of(rows, std::vector<Extents>{{1, 2}, {3, 2}})) ==
        std::vector<int64_t>{0, 1, 100, 101, 102, 103, 104, 105});
  FamilyCut words = rows;
  const std::vector<Extents> padded{{3, 2}, {3, 2}};
  CHECK_THROWS_WITH(join_of(rows, padded), Catch::Contains("not how one of [4, 2] is cut"));
  words.is_vocabulary = true;
  CHECK(sources(join_of(words, padded)) == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 100, 101});
}

TEST_CASE("ranks that have the same heads hold them together", "[checkpoint]") {
  const FamilyCut shared{.whole = {4},
                         .ranks = {{{{{0, 2}}}}, {{{{0, 2}}}}, {{{{2, 4}}}}, {{{{2, 4}}}}}};
  const TensorJoin join = join_of(shared, std::vector<Extents>{{2}, {2}, {2}, {2}});
  CHECK(sources(join) == std::vector<int64_t>{0, 1, 200, 201});
  CHECK(piece_at(join, 2).holders[1] == JoinedRun::Holder{.rank = 3, .first = 0});
}

}  // namespace
}  // namespace ds::deepspeed
