// Log-probabilities of the model's own distribution, and the likeliest tokens beside the drawn one.
#include "generate/logprobs.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

using namespace ds;

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

std::vector<int32_t> ids_of(const DrawnToken& token) {
  std::vector<int32_t> ids;
  for (const TokenLogprob& one : token.top) ids.push_back(one.id);
  return ids;
}

}  // namespace

TEST_CASE("a log-probability is the logit without the logarithm of the sum", "[rankd]") {
  const std::vector<float> logits{std::log(1.0F), std::log(4.0F), std::log(3.0F)};
  const DrawnToken drawn = with_logprobs(2, logits, 3, {});
  CHECK(drawn.id == 2);
  CHECK(drawn.logprob == Approx(std::log(3.0 / 8)).margin(1e-6));
  REQUIRE(ids_of(drawn) == std::vector<int32_t>{1, 2, 0});
  CHECK(drawn.top[0].logprob == Approx(std::log(0.5)).margin(1e-6));
  CHECK(drawn.top[2].logprob == Approx(std::log(1.0 / 8)).margin(1e-6));
}

TEST_CASE("large logits do not overflow", "[rankd]") {
  const std::vector<float> logits{3e38F, 3e38F, -3e38F};
  CHECK(with_logprobs(0, logits, 0, {}).logprob == Approx(std::log(0.5)).margin(1e-6));
}

TEST_CASE("the likeliest come first, of equally likely ones the lowest id", "[rankd]") {
  const std::vector<float> logits{1, 2, 2, 0, 2};
  CHECK(ids_of(with_logprobs(0, logits, 0, {})).empty());
  CHECK(ids_of(with_logprobs(0, logits, 2, {})) == std::vector<int32_t>{1, 2});
  CHECK(ids_of(with_logprobs(0, logits, 99, {})) == std::vector<int32_t>{1, 2, 4, 0, 3});
}

TEST_CASE("what is never drawn is no alternative, but has its share of the probability",
          "[rankd]") {
  const std::vector<float> logits{1, 1, kNever, 1, 1};
  const std::vector<int32_t> never{0, 3};
  const DrawnToken drawn = with_logprobs(1, logits, 5, never);
  CHECK(ids_of(drawn) == std::vector<int32_t>{1, 4});
  CHECK(drawn.logprob == Approx(std::log(0.25)).margin(1e-6));
}
