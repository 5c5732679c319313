// Update rules on numbers a person can follow.
#include "optim/rules.h"

#include <vector>

#include "core/status/error.h"
#include "kernels/optimizer/lamb_update.h"
#include "optim/batch_lr.h"
#include "tests/optim/rule_steps.h"
#include "tests/support/catch.h"

using namespace ds;
using testing::update;
using Floats = std::vector<float>;

TEST_CASE("lion moves by the sign of the blended momentum", "[optim][device]") {
  Floats w{1, 1, 1}, m{0, -1, 0};
  update(LionParams{.lr = 0.1, .betas = {0.9, 0.5}, .weight_decay = 0.5}, 1, w, Floats{2, 1, 0}, m);
  CHECK(w[0] == Approx(0.95 - 0.1));
  CHECK(w[1] == Approx(0.95 + 0.1));
  CHECK(w[2] == Approx(0.95));  // the sign of zero is 0
  CHECK(m[0] == Approx(1.0));
  CHECK(m[1] == Approx(0.0));
}

// 0.9 (1 - 0.99) 0.1 and (1 - 0.9) 0.009 are equal: only the rounding of 1 - beta tells a sign.
TEST_CASE("where lion's momentum and gradient cancel, fp32 decides", "[optim][device]") {
  const LionParams rule{.lr = 0.5, .betas = {0.9, 0.99}};
  Floats w{0}, m{0};
  update(rule, 1, w, Floats{0.1F}, m);
  CHECK(w[0] == -0.5F);
  update(rule, 2, w, Floats{-0.009F}, m);
  CHECK(w[0] == 0.0F);
}

TEST_CASE("adagrad's decay enters the sum only", "[optim][device]") {
  Floats w{2}, sum{0};
  update(AdagradParams{.lr = 0.1, .eps = 0, .weight_decay = 1}, 1, w, Floats{1}, sum);
  CHECK(sum[0] == 9);
  CHECK(w[0] == Approx(2 - 0.1 / 3));
}

TEST_CASE("sgd's momentum starts with the first gradient", "[optim][device]") {
  Floats w{1}, buffer{0};
  const SgdParams rule{.lr = 0.1, .momentum = 0.5, .dampening = 0.5};
  update(rule, 1, w, Floats{2}, buffer);
  CHECK(w[0] == Approx(0.8));
  update(rule, 2, w, Floats{2}, buffer);
  CHECK(buffer[0] == Approx(2));
  Floats plain{1}, none;
  update(SgdParams{.lr = 0.1, .weight_decay = 1}, 1, plain, Floats{2}, none);
  CHECK(plain[0] == Approx(0.7));
}

TEST_CASE("nesterov looks one step ahead and needs a momentum", "[optim][device]") {
  Floats w{0}, buffer{0};
  update(SgdParams{.lr = 1, .momentum = 0.5, .nesterov = true}, 1, w, Floats{2}, buffer);
  CHECK(w[0] == Approx(-3));
  CHECK_THROWS_AS(check(SgdParams{.nesterov = true}), ConfigError);
  CHECK_THROWS_AS(check(SgdParams{.lr = -0.1}), ConfigError);
  CHECK_THROWS_AS(check(SgdParams{.momentum = -0.5}), ConfigError);
  CHECK_THROWS_AS(check(SgdParams{.weight_decay = -1}), ConfigError);
  CHECK_THROWS_AS(check(SgdParams{.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
                  ConfigError);
}

TEST_CASE("weights, gradients and state of different lengths are refused", "[optim][device]") {
  Floats w{0}, state{0, 0};
  CHECK_THROWS_AS(update(LionParams{}, 1, w, Floats{1}, state), InternalError);
  CHECK_THROWS_AS(update(AdagradParams{}, 1, w, Floats{1, 2}, w), InternalError);
  CHECK_THROWS_AS(update(SgdParams{.momentum = 0.5}, 1, w, Floats{1}, state), InternalError);
}

TEST_CASE("the trust ratio is clamped and 1 without a norm", "[optim]") {
  CHECK(kernels::trust_ratio(4, 2, 0.01, 10) == 2);
  CHECK(kernels::trust_ratio(400, 2, 0.01, 10) == 10);
  CHECK(kernels::trust_ratio(1e-9, 2, 0.01, 10) == 0.01);
  CHECK(kernels::trust_ratio(0, 2, 0.01, 10) == 1);
}

TEST_CASE("learning rates follow the batch", "[optim]") {
  CHECK(lr_for_batch(0.1, 4, 16, BatchLrRule::kLinear) == Approx(0.4));
  CHECK(lr_for_batch(0.1, 4, 16, BatchLrRule::kSqrt) == Approx(0.2));
  CHECK(lr_for_batch(0.1, 4, 16, BatchLrRule::kNone) == 0.1);
  CHECK_THROWS_AS(lr_for_batch(0.1, 0, 16, BatchLrRule::kNone), InternalError);
}
