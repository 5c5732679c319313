// Lion, Adagrad and SGD over shards: the same numbers as their rules, in every gradient and copy
// dtype.
#include "optim/rule_optimizer.h"

#include "core/values/rng.h"
#include "optim/rules.h"
#include "tests/optim/rule_steps.h"
#include "tests/support/catch.h"

using namespace ds;
using testing::config_of;
using testing::floats_of;
using testing::step_shard;
using Floats = std::vector<float>;

namespace {

constexpr int64_t kNumel = 5001;  // not a multiple of the chunk

struct Rig {
  testing::TestStream own{3};
  Stream& stream = own.stream;
  Shard shard;

  Rig(const Optimizer& optimizer, DType grad_dtype, DType copy_dtype) {
    shard.master = Tensor::zeros({kNumel}, DType::kF32, stream);
    shard.grad = Tensor::zeros({kNumel}, grad_dtype, stream);
    shard.copy = Tensor::zeros({kNumel}, copy_dtype, stream);
    for (size_t i = 0; i < optimizer.slot_names().size(); ++i) {
      shard.slots.push_back(Tensor::zeros({kNumel}, DType::kF32, stream));
    }
  }
  // One gradient that is not 0.
  void set_gradient(int64_t at, float value) {
    stream.copy(&value, shard.grad.narrow(at, 1).address(), sizeof(value));
  }
};

}  // namespace

TEST_CASE("lion over a shard equals its rule on scaled, rounded gradients", "[optim][device]") {
  const LionParams rule{.lr = 0.01, .weight_decay = 0.1};
  const auto optimizer = make_optimizer(config_of(LionParams{.weight_decay = 0.1}));
  Rig rig(*optimizer, DType::kBF16, DType::kF16);
  const Rng rng(1, "lion");
  Floats weight(kNumel), state(kNumel), grad(kNumel);
  std::vector<BF16> rounded(kNumel);
  for (int64_t step = 1; step <= 3; ++step) {
    for (size_t i = 0; i < grad.size(); ++i) {
      rounded[i] = BF16(rng.normal(static_cast<uint64_t>(step) * 8192 + i));
      grad[i] = static_cast<float>(rounded[i]) * 0.5F;
    }
    rig.shard.grad = testing::upload(rounded, {kNumel}, rig.stream);
    testing::update(rule, step, weight, grad, state);
    step_shard(*optimizer, rig.shard, {.lr = 0.01}, step, rig.stream, {.grad_scale = 0.5F});
  }
  const Floats master = floats_of(rig.shard.master), copy = floats_of(rig.shard.copy);
  for (size_t i = 0; i < weight.size(); ++i) {
    REQUIRE(master[i] == weight[i]);
    REQUIRE(copy[i] == static_cast<float>(F16(weight[i])));
  }
}

TEST_CASE("sgd has a slot only with momentum, adagrad one for its sum", "[optim][device]") {
  CHECK(make_optimizer(config_of(SgdParams{}))->slot_names().empty());
  CHECK(make_optimizer(config_of(SgdParams{.momentum = 0.9}))->slot_names().size() == 1);
  CHECK(make_optimizer({.type = OptimizerType::kAdagrad})->slot_names().size() == 1);
  CHECK_THROWS_AS(make_optimizer(config_of(SgdParams{.nesterov = true})), ConfigError);

  const auto sgd = make_optimizer(config_of(SgdParams{}));
  Rig rig(*sgd, DType::kF32, DType::kBF16);
  rig.set_gradient(7, 2);
  step_shard(*sgd, rig.shard, {.lr = 0.5}, 1, rig.stream);
  CHECK(floats_of(rig.shard.master)[7] == -1);
  CHECK(floats_of(rig.shard.master)[8] == 0);
}

TEST_CASE("a shard whose parts differ is refused", "[optim][device]") {
  const auto lion = make_optimizer(config_of(LionParams{}));
  Rig rig(*lion, DType::kF32, DType::kF32);
  rig.shard.slots.clear();
  CHECK_THROWS_AS(step_shard(*lion, rig.shard, {}, 1, rig.stream), InternalError);
  rig.shard.slots.push_back(rig.shard.master.narrow(0, 3));
  CHECK_THROWS_AS(step_shard(*lion, rig.shard, {}, 1, rig.stream), InternalError);
}

TEST_CASE("both betas of a schedule replace those of Adam and Lion", "[optim][device]") {
  const Hyper cycled{.lr = 0.01, .betas = std::array{0.8, 0.99}};
  const auto trained = [](const Optimizer& optimizer, const Hyper& hyper) {
    Rig rig(optimizer, DType::kF32, DType::kBF16);
    for (int64_t step = 1; step <= 3; ++step) {
      rig.set_gradient(7, static_cast<float>(step));
      step_shard(optimizer, rig.shard, hyper, step, rig.stream);
    }
    Floats out{floats_of(rig.shard.master)[7]};
    for (const Tensor& slot : rig.shard.slots) out.push_back(floats_of(slot)[7]);
    return out;
  };
  const Hyper own{.lr = 0.01};
  const Floats adam = trained(*make_adam({.betas = {0.8, 0.99}}), own);
  CHECK(trained(*make_adam({.betas = {0.9, 0.999}}), cycled) == adam);
  CHECK(trained(*make_adam({.betas = {0.9, 0.999}}), own) != adam);
  CHECK(trained(*make_optimizer(config_of(LionParams{})), cycled) ==
        trained(*make_optimizer(config_of(LionParams{.betas = {0.8, 0.99}})), own));
}

TEST_CASE("the bias corrections of a step before the first are refused", "[optim]") {
  const auto adam = make_adam({});
  CHECK_THROWS_WITH(adam->inputs({.lr = 1}, 0),
                    Catch::Contains("bias corrections of step 0 are 0 and 0, expected > 0"));
  CHECK(adam->inputs({.lr = 1}, 1).correction1 == 1 - 0.9);
  CHECK(make_adam({.bias_correction = false})->inputs({.lr = 1}, 1).correction2 == 1);
}
