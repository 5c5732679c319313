// Adam and AdamW against their formula in fp64.
#include "kernels/optimizer/update.h"

#include <array>
#include <cmath>
#include <span>

#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

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

Tensor copy_of(const Tensor& tensor, Stream& stream) {
  Tensor copy = Tensor::empty({tensor.numel()}, tensor.dtype(), stream);
  stream.copy(tensor.address(), copy.address(), tensor.bytes());
  return copy;
}

// What lies before and after views of n elements.
std::vector<std::vector<std::byte>> beside(std::span<const Tensor> whole,
                                           std::span<const int64_t> at, int64_t n) {
  std::vector<std::vector<std::byte>> bytes;
  for (size_t i = 0; i < whole.size(); ++i) {
    bytes.push_back(bytes_of(whole[i].narrow(0, at[i])));
    bytes.push_back(bytes_of(whole[i].narrow(at[i] + n, whole[i].numel() - at[i] - n)));
  }
  return bytes;
}

}  // namespace

TEST_CASE("ten Adam steps follow the formula, in every gradient and copy dtype",
          "[kernels][device]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    for (const WeightDecay decay : {WeightDecay::kDecoupled, WeightDecay::kL2}) {
      for (const int64_t n : {1, 3, 4, 31, 129, 10001}) {
        AdamArgs a{.master = random_tensor({n}, DType::kF32, 1, s.stream),
                   .exp_avg = Tensor::zeros({n}, DType::kF32, s.stream),
                   .exp_avg_sq = Tensor::zeros({n}, DType::kF32, s.stream),
                   .copy = dtype == DType::kF32 && decay == WeightDecay::kL2
                               ? Tensor{}
                               : Tensor::empty({n}, dtype, s.stream),
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

// With rounded moments each step is that of the formula; the weights see moments not yet rounded.
TEST_CASE("moments of bf16 are rounded once a step", "[kernels][device]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {1, 4, 31, 1025}) {
      AdamArgs a{.master = random_tensor({n}, DType::kF32, 1, s.stream),
                 .exp_avg = Tensor::zeros({n}, DType::kBF16, s.stream),
                 .exp_avg_sq = Tensor::zeros({n}, DType::kBF16, s.stream),
                 .copy = dtype == DType::kF32 ? Tensor{} : Tensor::empty({n}, dtype, s.stream),
                 .rule = {.weight_decay = 0.1F}};
      StepInputs in{.lr = static_cast<double>(1e-2F),
                    .beta1 = static_cast<double>(0.9F),
                    .beta2 = static_cast<double>(0.99F)};
      for (int step = 1; step <= 5; ++step) {
        a.grad = random_tensor({n}, dtype, 100 + static_cast<uint64_t>(step), s.stream);
        in.correction1 = 1 - std::pow(in.beta1, step);
        in.correction2 = 1 - std::pow(in.beta2, step);
        State expected{values_of(a.master), values_of(a.exp_avg), values_of(a.exp_avg_sq)};
        reference_step(expected, values_of(a.grad), a.rule, in, 1.0);
        adam_update(s.stream, a, testing::scalars_of(s.stream, in));
        INFO(name_of(dtype) << " n " << n << " step " << step);
        REQUIRE(error_of(a.master, expected.w) < 1e-6);
        REQUIRE(error_of(a.exp_avg, expected.m) < tolerance_of(DType::kBF16));
        REQUIRE(error_of(a.exp_avg_sq, expected.v) < tolerance_of(DType::kBF16));
      }
      if (a.copy.defined()) {
        REQUIRE(same_bits(a.copy, tensor_of(values_of(a.master), {n}, dtype, s.stream)));
      }
    }
  }
}

TEST_CASE("an Adam step leaves everything as it is where the scalars say skip",
          "[kernels][device]") {
  TestStream s;
  const AdamArgs a{.master = random_tensor({1027}, DType::kF32, 1, s.stream),
                   .grad = tensor_of(Values(1027, std::nan("")), {1027}, DType::kBF16, s.stream),
                   .exp_avg = random_tensor({1027}, DType::kF32, 2, s.stream),
                   .exp_avg_sq = random_tensor({1027}, DType::kF32, 3, s.stream),
                   .copy = random_tensor({1027}, DType::kF16, 4, s.stream)};
  const auto all = [&] {
    return std::vector{bytes_of(a.master), bytes_of(a.exp_avg), bytes_of(a.exp_avg_sq),
                       bytes_of(a.copy)};
  };
  const auto before = all();
  const StepInputs in{.lr = 1, .beta1 = 0.9, .beta2 = 0.999};
  adam_update(s.stream, a, testing::scalars_of(s.stream, in, {.skip = 1}));
  CHECK(all() == before);
  adam_update(s.stream, a, testing::scalars_of(s.stream, in));
  CHECK(all() != before);
}

// In some cases packs cannot be used, for one operand or all; lengths are around a pack, a warp, a
// block.
TEST_CASE("an Adam step on views is that on whole tensors, and leaves what lies beside",
          "[kernels][device]") {
  TestStream s;
  constexpr int64_t kMost = 1100;
  const StepScalars scalars =
      testing::scalars_of(s.stream, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999}, {.grad_scale = 2});
  // These are the dtypes of weights, both moments, gradient and copy.
  using enum DType;
  for (const std::array<DType, 5>& dtypes : {std::array<DType, 5>{kF32, kF32, kF32, kF32, kBF16},
                                             {kF32, kF32, kF32, kF16, kF16},
                                             {kF32, kBF16, kBF16, kBF16, kBF16},
                                             {kF32, kBF16, kBF16, kF32, kF16}}) {
    // Operand by operand, where the view begins.
    for (const std::array<int64_t, 5>& at : {std::array<int64_t, 5>{0, 0, 0, 0, 0},
                                             {1, 1, 1, 1, 1},
                                             {0, 0, 0, 0, 1},
                                             {0, 0, 0, 2, 0},
                                             {4, 8, 0, 4, 4},
                                             {0, 3, 0, 0, 0}}) {
      for (const int64_t n : {1, 4, 7, 33, 1023, 1024, 1025}) {
        std::array<Tensor, 5> whole, expected, got;
        for (size_t i = 0; i < 5; ++i) {
          const DType of = dtypes[i];
          whole[i] = random_tensor({kMost}, of, i + 1, s.stream, i == 2 ? 0.0 : 1.0);
          got[i] = whole[i].narrow(at[i], n);
          expected[i] = copy_of(got[i], s.stream);
        }
        const auto bytes_before = beside(whole, at, n);
        const auto step = [&](const std::array<Tensor, 5>& on) {
          adam_update(s.stream,
                      {.master = on[0],
                       .grad = on[3],
                       .exp_avg = on[1],
                       .exp_avg_sq = on[2],
                       .copy = on[4],
                       .rule = {.weight_decay = 0.1F}},
                      scalars);
        };
        step(expected);
        step(got);
        INFO(name_of(dtypes[1]) << " " << name_of(dtypes[3]) << " n " << n << " views at " << at[0]
                                << at[1] << at[2] << at[3] << at[4]);
        for (size_t i = 0; i < 5; ++i) REQUIRE(same_bits(got[i], expected[i]));
        REQUIRE(beside(whole, at, n) == bytes_before);
      }
    }
  }
}

TEST_CASE("an Adam step refuses operands that do not fit", "[kernels][device]") {
  TestStream s;
  AdamArgs a{.master = random_tensor({8}, DType::kF32, 1, s.stream),
             .grad = random_tensor({8}, DType::kF32, 1, s.stream),
             .exp_avg = Tensor::zeros({8}, DType::kF32, s.stream),
             .exp_avg_sq = Tensor::zeros({7}, DType::kF32, s.stream)};
  const StepScalars scalars = testing::scalars_of(s.stream, {.lr = 1});
  REQUIRE_THROWS_WITH(adam_update(s.stream, a, scalars),
                      Catch::Contains("exp_avg_sq has shape [7]"));
  a.exp_avg_sq = Tensor::zeros({8}, DType::kF32, s.stream);
  a.copy = Tensor::zeros({8}, DType::kI32, s.stream);
  REQUIRE_THROWS_WITH(adam_update(s.stream, a, scalars),
                      Catch::Contains("copy is int32, expected fp32, bf16 or fp16"));
}

}  // namespace ds::kernels
