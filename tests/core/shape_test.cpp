// Shapes: their limits, how axes are counted, and sizes that do not fit.
#include "core/values/shape.h"

#include <limits>
#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("axes count from the front, and from the back when negative", "[core]") {
  const Shape shape{2, 3, 5};
  CHECK(shape.rank() == 3);
  for (int axis = 0; axis < 3; ++axis) CHECK(shape[axis] == shape[axis - 3]);
  CHECK(shape[-1] == 5);
  for (const int axis : {3, -4, 100}) {
    CHECK_THROWS_WITH(shape[axis], Catch::Contains(fmt::format("axis {} of a rank-3 shape", axis)));
  }
  CHECK_THROWS_AS(Shape{}[0], InternalError);
}

TEST_CASE("a shape without axes has one element, one with an empty axis none", "[core]") {
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{}.to_string() == "[]");
  CHECK(Shape{4, 0, 3}.numel() == 0);
  CHECK(Shape{7}.numel() == 7);
  CHECK(Shape{4, 64, 768}.to_string() == "[4, 64, 768]");
}

TEST_CASE("six axes are a shape, seven are none, and no axis is negative", "[core]") {
  const std::vector<int64_t> six(6, 2);
  CHECK(Shape(std::span(six)).numel() == 64);
  const std::vector<int64_t> seven(7, 1);
  CHECK_THROWS_WITH(Shape(std::span(seven)), Catch::Contains("rank 7 exceeds 6"));
  CHECK_THROWS_WITH((Shape{3, -1}), Catch::Contains("extent -1 of axis 1 is negative"));
}

TEST_CASE("more elements than 64 bits can count are an error, not a small number", "[core]") {
  const int64_t half = int64_t{1} << 32;
  CHECK(Shape{half, half / 4}.numel() == int64_t{1} << 62);
  CHECK_THROWS_WITH((Shape{half, half}.numel()),
                    Catch::Contains("[4294967296, 4294967296] overflows int64"));
  CHECK(Shape{std::numeric_limits<int64_t>::max()}.numel() == std::numeric_limits<int64_t>::max());
}

TEST_CASE("shapes are equal when all extents are, and only then", "[core]") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_FALSE(Shape{} == Shape{1});
  CHECK_FALSE(Shape{0} == Shape{0, 0});  // equal numbers of elements are not enough
}

}  // namespace
}  // namespace ds
