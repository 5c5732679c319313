// Adam and AdamW against their formula in fp64.
#include "kernels/update.h"

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct State {
  Values w, m, v;
};

void reference_step(State& s, const Values& grad, const AdamArgs& a) {
  const double lr = a.lr, decay = a.weight_decay, b1 = a.beta1, b2 = a.beta2;
  for (size_t i = 0; i < grad.size(); ++i) {
    double g = grad[i] * a.grad_scale;
    if (a.decay == WeightDecay::kDecoupled) {
      s.w[i] *= 1 - lr * decay;
    } else {
      g += decay * s.w[i];
    }
    s.m[i] = b1 * s.m[i] + (1 - b1) * g;
    s.v[i] = b2 * s.v[i] + (1 - b2) * g * g;
    const double denominator = std::sqrt(s.v[i]) / std::sqrt(a.bias_correction2) + a.eps;
    s.w[i] -= lr / a.bias_correction1 * s.m[i] / denominator;
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
                   .grad_scale = 0.25F,
                   .lr = 1e-2F,
                   .weight_decay = 0.1F,
                   .decay = decay};
        State expected{values_of(a.master), Values(static_cast<size_t>(n)),
                       Values(static_cast<size_t>(n))};
        for (int step = 1; step <= 10; ++step) {
          a.grad = random_tensor({n}, dtype, 100 + static_cast<uint64_t>(step), s.stream);
          a.bias_correction1 = 1 - std::pow(static_cast<double>(a.beta1), step);
          a.bias_correction2 = 1 - std::pow(static_cast<double>(a.beta2), step);
          reference_step(expected, values_of(a.grad), a);
          adam_update(s.stream, a);
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
  REQUIRE_THROWS_WITH(adam_update(s.stream, a), Catch::Contains("exp_avg_sq has shape [7]"));
  a.exp_avg_sq = Tensor::zeros({8}, DType::kF32, s.stream);
  a.copy = Tensor::zeros({8}, DType::kF32, s.stream);
  REQUIRE_THROWS_WITH(adam_update(s.stream, a),
                      Catch::Contains("copy is fp32, expected bf16 or fp16"));
}

}  // namespace ds::kernels
