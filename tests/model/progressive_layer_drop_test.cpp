// Progressive layer drop: theta over steps, keep probability over depth.
#include "model/progressive_layer_drop.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("theta falls from one to its limit", "[model]") {
  ProgressiveLayerDrop drop(0.5, 0.01);
  CHECK(drop.current() == 1.0);
  CHECK(drop.update(0) == 1.0);
  CHECK(drop.update(1) == Approx(0.9950249168745839).epsilon(1e-15));
  CHECK(drop.update(100000) == Approx(0.5));
  CHECK(drop.current() == drop.at(100000));
}

TEST_CASE("deeper layers are dropped more", "[model]") {
  ProgressiveLayerDrop drop(0.5, 0.01);
  drop.restore(0.6);
  CHECK(drop.keep_probability(0, 4) == Approx(0.9));
  CHECK(drop.keep_probability(3, 4) == Approx(0.6));
  CHECK_THROWS_AS(drop.keep_probability(4, 4), InternalError);
}

TEST_CASE("theta and gamma outside their ranges are refused", "[model]") {
  CHECK_THROWS_AS(ProgressiveLayerDrop(1.5, 0.1), ConfigError);
  CHECK_THROWS_AS(ProgressiveLayerDrop(-0.5, 0.1), ConfigError);
  CHECK_THROWS_AS(ProgressiveLayerDrop(0.5, -0.1), ConfigError);
}
