// Row-sparse gradients: which rows travel and what they add up to.
#include "comm/sparse_rows.h"

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ds;
using Floats = std::vector<float>;
using Indices = std::vector<int64_t>;

TEST_CASE("a dense gradient keeps the rows whose sum is not zero", "[comm]") {
  const Floats dense{0, 0, 1, 2, 3, -3, 0, 4};
  const SparseRows sparse = SparseRows::from_dense(dense, 4, 2);
  CHECK(sparse.indices == Indices{1, 3});  // row 2 cancels out
  CHECK(sparse.values == Floats{1, 2, 0, 4});
  CHECK(sparse.to_dense() == Floats{0, 0, 1, 2, 0, 0, 0, 4});
  CHECK(sparse.stored_numel() == 6);
  CHECK(sparse.dense_numel() == 8);
  CHECK(SparseRows::from_rows(dense, 4, 2, Indices{2}).values == Floats{3, -3});
}

TEST_CASE("rounding decides a row as it does in the reference", "[comm]") {
  const Floats kept{-0.5F, 0.9F, -0.7F, -0.1F, 0.4F}, dropped{-0.3F, 0.4F, -0.9F, 0.7F, 0.1F};
  CHECK(SparseRows::from_dense(kept, 1, 5).indices == Indices{0});
  CHECK(SparseRows::from_dense(dropped, 1, 5).indices.empty());
}

TEST_CASE("repeated rows add up", "[comm]") {
  SparseRows sum = SparseRows::from_dense(Floats{1, 0}, 2, 1);
  sum.add(SparseRows::from_dense(Floats{5, 7}, 2, 1));
  CHECK(sum.indices == Indices{0, 0, 1});
  CHECK(sum.to_dense() == Floats{6, 7});
  sum.scale(2);
  CHECK(sum.to_dense() == Floats{12, 14});
}

TEST_CASE("the average over ranks equals the average of the dense gradients", "[comm]") {
  const std::vector<SparseRows> parts{SparseRows::from_dense(Floats{2, 0, 4}, 3, 1),
                                      SparseRows::from_dense(Floats{0, 0, 8}, 3, 1)};
  CHECK(average_over_ranks(parts).to_dense() == Floats{1, 0, 6});
}

TEST_CASE("matrices of other shapes and rows outside are refused", "[comm]") {
  SparseRows sparse = SparseRows::from_dense(Floats{1, 2}, 2, 1);
  CHECK_THROWS_AS(sparse.add(SparseRows::from_dense(Floats{1, 2}, 1, 2)), InternalError);
  CHECK_THROWS_AS(SparseRows::from_dense(Floats{1, 2, 3}, 2, 1), InternalError);
  CHECK_THROWS_AS(SparseRows::from_rows(Floats{1, 2}, 2, 1, Indices{2}), InternalError);
  CHECK_THROWS_AS(average_over_ranks({}), InternalError);
}
