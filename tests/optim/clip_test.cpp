#include "optim/clip.h"

#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("one factor unscales and clips", "[optim]") {
  CHECK(unscale_and_clip_factor(10, 4, 0) == 0.25);
  CHECK(unscale_and_clip_factor(2, 4, 1) == 0.25);
  CHECK(unscale_and_clip_factor(8, 4, 1) == Approx(0.125));
  CHECK_THROWS_AS(unscale_and_clip_factor(8, 0, 1), InternalError);
}
