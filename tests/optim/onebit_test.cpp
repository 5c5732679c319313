// 1-bit optimizers: which update does what, and what is refused. What they compute is in
// tests/zero/onebit_test.cpp.
#include <vector>

#include "comm/meta_comm.h"
#include "core/status/error.h"
#include "optim/onebit_stages.h"
#include "optim/rule_optimizer.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("the first update sets up, the warm-up lasts to freeze_step", "[optim]") {
  using enum OneBitStage;
  const auto stages = [](int64_t freeze_step) {
    std::vector<OneBitStage> all;
    for (int64_t update = 1; update <= 5; ++update) {
      all.push_back(onebit_stage(update, freeze_step));
    }
    return all;
  };
  CHECK(stages(3) == std::vector{kSetUp, kWarmUp, kWarmUp, kCompressed, kCompressed});
  // Never less than one update.
  CHECK(stages(0) == std::vector{kSetUp, kWarmUp, kCompressed, kCompressed, kCompressed});
}

TEST_CASE("0/1 Adam's variance moves at intervals that double after so many of them", "[optim]") {
  std::vector<int64_t> moves;
  for (int64_t update = 2; update <= 40; ++update) {
    if (moves_variance(update, 3)) moves.push_back(update);
  }
  CHECK(moves == std::vector<int64_t>{2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40});
}

TEST_CASE("0/1 Adam's ranks go on alone for intervals that double up to the clipper", "[optim]") {
  ZeroOneAdamParams params;
  params.var_freeze_step = 8;
  params.local_step_scaler = 4;
  params.local_step_clipper = 4;
  CHECK(first_local_update(params) == 10);
  CHECK(zero_one_update(1, params).stage == ZeroOneStage::kSetUp);
  CHECK(zero_one_update(9, params).stage != ZeroOneStage::kLocal);
  std::vector<int64_t> agreements;
  for (int64_t update = 10; update <= 30; ++update) {
    const ZeroOneUpdate now = zero_one_update(update, params);
    CHECK(now.stage == ZeroOneStage::kLocal);
    CHECK(now.is_first_local == (update == 10));
    CHECK(now.since == (agreements.empty() ? 10 : agreements.back() + 1));
    if (now.agrees) agreements.push_back(update);
  }
  CHECK(agreements == std::vector<int64_t>{10, 11, 12, 13, 14, 16, 20, 24, 28});
}

TEST_CASE("a plan knows the kinds of updates that a run has", "[optim]") {
  OneBitAdamParams adam;
  adam.freeze_step = 10;
  const auto one = make_optimizer({.type = OptimizerType::kOneBitAdam, .onebit_adam = adam});
  CHECK(one->kinds_of_updates(100) == std::vector<int64_t>{11, 2});
  CHECK(one->kinds_of_updates(10) == std::vector<int64_t>{2});
  ZeroOneAdamParams zero;
  zero.var_freeze_step = 30;
  const auto other = make_optimizer({.type = OptimizerType::kZeroOneAdam, .zero_one_adam = zero});
  CHECK(other->kinds_of_updates(100) == std::vector<int64_t>{32, 19, 2});
  CHECK(other->kinds_of_updates(25) == std::vector<int64_t>{19, 2});
  CHECK(other->kinds_of_updates(9) == std::vector<int64_t>{2});
}

TEST_CASE("1-bit optimizers keep their state in fp32", "[optim]") {
  for (const OptimizerType type :
       {OptimizerType::kOneBitAdam, OptimizerType::kZeroOneAdam, OptimizerType::kOneBitLamb}) {
    CHECK_THROWS_AS(make_optimizer({.type = type, .moment_dtype = MomentType::kBf16}), Unsupported);
  }
}

}  // namespace
}  // namespace ds
