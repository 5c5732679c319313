// 1-bit optimizers: phases, what stays frozen, and that ranks with compressed momenta still
// descend.
#include "optim/onebit.h"

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"
#include "kernels/quantize/onebit_math.h"
#include "tests/support/catch.h"

using namespace ds;
using Floats = std::vector<float>;

TEST_CASE("the first step changes nothing, warm-up lasts to freeze_step", "[optim]") {
  OneBitAdam adam({{.lr = 0.1, .eps = 0}, 3}, 1);
  Floats w{1};
  std::vector<OneBitPhase> phases;
  for (int step = 0; step < 4; ++step) {
    phases.push_back(adam.phase());
    adam.accumulate(Floats{2});
    adam.update(w);
    if (step == 0) CHECK(w[0] == 1);
  }
  CHECK(phases == std::vector<OneBitPhase>{OneBitPhase::kSetUp, OneBitPhase::kWarmUp,
                                           OneBitPhase::kWarmUp, OneBitPhase::kCompressed});
  CHECK(OneBitAdam({{}, 0}, 1).phase() == OneBitPhase::kSetUp);
}

TEST_CASE("a warm-up step of 1-bit Adam is Adam without bias correction", "[optim]") {
  OneBitAdam adam({{.lr = 0.5, .betas = {0.5, 0.75}, .eps = 0, .weight_decay = 0.5}}, 1);
  Floats w{1};
  for (int step = 0; step < 2; ++step) {
    adam.accumulate(Floats{2});
    adam.update(w);
  }
  CHECK(w[0] == Approx(1 - 0.5 * (1.0 / 1.0 + 0.5)));  // m = 1, v = 1
}

TEST_CASE("ranks with compressed momenta descend a quadratic together", "[optim]") {
  constexpr int64_t kRanks = 4, kNumel = 40;
  const Rng rng(5, "onebit");
  std::vector<OneBitAdam> adams(kRanks, OneBitAdam({{.lr = 0.01}, 20}, kNumel));
  std::vector<Floats> weights(kRanks, Floats(kNumel, 2.0F));
  const int64_t padded = kernels::onebit_padded_numel(kNumel, kRanks);
  std::vector<kernels::OneBitErrors> errors(kRanks, kernels::OneBitErrors::zeros(padded, kRanks));
  for (uint64_t step = 0; step < 400; ++step) {
    const OneBitPhase phase = adams[0].phase();
    std::vector<Floats> momenta;
    for (size_t r = 0; r < adams.size(); ++r) {
      Floats grad = weights[r];
      const Rng noise = phase == OneBitPhase::kCompressed ? rng.derive(r) : rng;
      for (size_t i = 0; i < grad.size(); ++i) {
        grad[i] += 0.1F * noise.normal(step * 64 + i);
      }
      adams[r].accumulate(grad);
      momenta.emplace_back(adams[r].momentum().begin(), adams[r].momentum().end());
    }
    if (phase == OneBitPhase::kCompressed) {
      const Floats mean = kernels::onebit_average(momenta, errors);
      for (OneBitAdam& adam : adams) std::ranges::copy(mean, adam.momentum().begin());
    }
    for (size_t r = 0; r < adams.size(); ++r) adams[r].update(weights[r]);
  }
  for (const Floats& w : weights) {
    CHECK(w == weights[0]);
    for (const float value : w) CHECK(std::abs(value) < 0.5F);
  }
}

TEST_CASE("1-bit LAMB brings momenta to one magnitude and keeps its ratio near the frozen one",
          "[optim]") {
  const std::vector<int64_t> numels{3, 2};
  OneBitLamb lamb({{.lr = 0.01}, 4}, numels);
  Floats a{1, 2, 3}, b{-1, 1};
  const std::vector<std::span<float>> weights{a, b};
  const Floats grad_a{100, -100, 100}, grad_b{0.1F, 0.1F};
  const std::vector<std::span<const float>> grads{grad_a, grad_b};
  double frozen = 0;
  for (int step = 0; step < 6; ++step) {
    const OneBitPhase phase = lamb.phase();
    lamb.accumulate(grads);
    if (phase == OneBitPhase::kCompressed) {
      const auto m = lamb.momentum();
      CHECK(std::abs(m[0]) == Approx(std::abs(m[3])).epsilon(0.2));
    }
    lamb.update(weights);
    CHECK(lamb.coefficients().size() == (phase == OneBitPhase::kSetUp ? 0U : 2U));
    if (phase == OneBitPhase::kWarmUp) {
      frozen = 0.9 * frozen + 0.1 * lamb.coefficients()[0];
    } else if (phase == OneBitPhase::kCompressed) {
      CHECK(lamb.coefficients()[0] == Approx(frozen).epsilon(0.25));
    }
  }
  CHECK_THROWS_AS(lamb.accumulate({}), InternalError);
  CHECK_THROWS_AS(lamb.update({}), InternalError);
}
