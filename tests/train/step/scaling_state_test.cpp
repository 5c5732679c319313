#include "train/step/scaling_state.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("the state of a loss scaler is read as it was written", "[train]") {
  const ScalingState state{
      .skipped = 7,
      .scaler = {
          .scale = 0x1p-3, .iteration = 41, .last_overflow = 39, .hysteresis = 2, .stuck = 1}};
  CHECK(
      to_text(state) ==
      R"({"skipped":7,"scale":0.125,"iteration":41,"last_overflow":39,"hysteresis":2,"stuck":1})");
  CHECK(parse_scaling_state(to_text(state)) == state);
  const ScalingState huge{.skipped = 0, .scaler = {.scale = 0x1p120}};
  CHECK(parse_scaling_state(to_text(huge)) == huge);
  const std::string older =
      R"({"skipped":0,"scale":4,"iteration":1,"last_overflow":-1,"hysteresis":2})";
  CHECK(parse_scaling_state(older).scaler.stuck == 0);
}

TEST_CASE("what is no state of a loss scaler is refused by what is missing", "[train]") {
  const auto refused = [](const char* text, const char* why) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_scaling_state(text), Catch::Contains(why));
    CHECK_THROWS_AS(parse_scaling_state(text), ValidationError);
  };
  refused("{", "the loss scaler of a checkpoint");
  refused("{}", "has no integer \"skipped\"");
  refused(R"({"skipped": 1})", "has no number \"scale\"");
  refused(R"({"skipped": 1, "scale": 2, "iteration": 0.5})", "has no integer \"iteration\"");
  refused(R"({"skipped": -1, "scale": 2, "iteration": 1, "last_overflow": -1, "hysteresis": 1})",
          "skipped -1 steps");
}

}  // namespace
}  // namespace ds
