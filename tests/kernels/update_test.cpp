// Adam and AdamW against their formula in fp64.
#include "kernels/update.h"

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_scalars.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct State {
  Values w, m, v;
};

void reference_step(State& s, const Values& grad, const AdamRule& rule, const StepInputs& in,
                    double grad_scale) {
  const double lr = in.lr, decay = rule.weight_decay, b1 = in.beta1, b2 = in.beta2;
  for (size_t i = 0; i < grad.size(); ++i) {
    double g = grad[i] * grad_scale;
    if (rule.decay == WeightDecay::kDecoupled) {
      s.w[i] *= 1 - lr * decay;
    } else {
      g += decay * s.w[i];
    }
    s.m[i] = b1 * s.m[i] + (1 - b1) * g;
    s.v[i] = b2 * s.v[i] + (1 - b2) * g * g;
    const double denominator = std::sqrt(s.v[i]) / std::sqrt(in.correction2) + rule.eps;
    s.w[i] -= lr / in.correction1 * s.m[i] / denominator;
  }
}

}  // namespace

TEST_CASE("ten Adam steps follow the formula, in every gradient and copy dtype", "[kernels]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    for (const WeightDecay decay : {WeightDecay::kDecoupled, WeightDecay::kL2}) {
      for (const int64_t n : {1, 31, 10001}) {
        AdamArgs a{.master = random_tensor({n}, DType::kF32, 1, s.stream),
                   .exp_avg = Tensor::zeros({n}, DType::kF32, s.stream),
                   .exp_avg_sq = Tensor::zeros({n}, DType::kF32, s.stream),
                   .copy = dtype == DType::kF32 ? Tensor{} : Tensor::empty({n}, dtype, s.stream),
                   .rule = {.weight_decay = 0.1F, .decay = decay}};
        // As fp32 has them: 1 - beta2 is what the state is most sensitive to.
        StepInputs in{.lr = static_cast<double>(1e-2F),
                      .beta1 = static_cast<double>(0.9F),
                      .beta2 = static_cast<double>(0.999F)};
        State expected{values_of(a.master), Values(static_cast<size_t>(n)),
                       Values(static_cast<size_t>(n))};
        for (int step = 1; step <= 10; ++step) {
          a.grad = random_tensor({n}, dtype, 100 + static_cast<uint64_t>(step), s.stream);
          in.correction1 = 1 - std::pow(in.beta1, step);
          in.correction2 = 1 - std::pow(in.beta2, step);
          reference_step(expected, values_of(a.grad), a.rule, in, 0.25);
          adam_update(s.stream, a, testing::scalars_of(s.stream, in, {.grad_scale = 0.25F}));
        }
        INFO(name_of(dtype) << " n " << n << " decay " << static_cast<int>(decay));
        REQUIRE(error_of(a.master, expected.w) < 1e-6);
        REQUIRE(error_of(a.exp_avg, expected.m) < 1e-6);
        REQUIRE(error_of(a.exp_avg_sq, expected.v) < 1e-6);
        if (a.copy.defined()) {
          REQUIRE(same_bits(a.copy, tensor_of(values_of(a.master), {n}, dtype, s.stream)));
        }
      }
    }
  }
}

TEST_CASE("an Adam step refuses operands that do not fit", "[kernels]") {
  TestStream s;
  AdamArgs a{.master = random_tensor({8}, DType::kF32, 1, s.stream),
             .grad = random_tensor({8}, DType::kF32, 1, s.stream),
             .exp_avg = Tensor::zeros({8}, DType::kF32, s.stream),
             .exp_avg_sq = Tensor::zeros({7}, DType::kF32, s.stream)};
  const StepScalars scalars = testing::scalars_of(s.stream, {.lr = 1});
  REQUIRE_THROWS_WITH(adam_update(s.stream, a, scalars),
                      Catch::Contains("exp_avg_sq has shape [7]"));
  a.exp_avg_sq = Tensor::zeros({8}, DType::kF32, s.stream);
  a.copy = Tensor::zeros({8}, DType::kF32, s.stream);
  REQUIRE_THROWS_WITH(adam_update(s.stream, a, scalars),
                      Catch::Contains("copy is fp32, expected bf16 or fp16"));
}

}  // namespace ds::kernels
