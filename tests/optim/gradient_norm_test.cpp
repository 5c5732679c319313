// Gradient norms and the unscale-and-clip factor.
#include "optim/gradient_norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "tests/support/catch.h"

using namespace ds;
using Floats = std::vector<float>;

TEST_CASE("norms run over all tensors together", "[optim]") {
  const Floats a{3, 0}, b{-4};
  const std::vector<std::span<const float>> both{a, b};
  CHECK(gradient_norm(both) == 5);
  CHECK(gradient_norm(both, std::numeric_limits<double>::infinity()) == 4);
  CHECK(gradient_norm(both, 1) == 7);
  CHECK(gradient_norm({}) == 0);
  CHECK_THROWS_AS(gradient_norm(both, 0), InternalError);
}

TEST_CASE("a NaN shows in every norm", "[optim]") {
  const Floats a{1, std::nanf(""), 2};
  const std::vector<std::span<const float>> one{a};
  CHECK(std::isnan(gradient_norm(one)));
  CHECK(std::isnan(gradient_norm(one, std::numeric_limits<double>::infinity())));
}

TEST_CASE("norms of parts combine", "[optim]") {
  CHECK(global_norm(std::vector<double>{3, 4}) == 5);
  CHECK(global_norm({}) == 0);
}

TEST_CASE("one factor unscales and clips", "[optim]") {
  CHECK(unscale_and_clip_factor(10, 4, 0) == 0.25);
  CHECK(unscale_and_clip_factor(2, 4, 1) == 0.25);
  CHECK(unscale_and_clip_factor(8, 4, 1) == Approx(0.125));
  CHECK_THROWS_AS(unscale_and_clip_factor(8, 0, 1), InternalError);
}
