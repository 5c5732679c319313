// Bias, the value before the activation and the activation after a product, wherever c lies: on the
// CPU matmul() does them, on a CUDA device the kernel that finishes what a library has left.
#include <optional>

#include "kernels/matmul/finish.h"
#include "kernels/matmul/matmul_operands.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct Case {
  int64_t rows, columns, apart, offset;  // elements between rows of c, and before the first
};

struct Finish {
  Activation activation;
  std::optional<DType> bias;
  bool kept;
};

void multiply_and_finish(Stream& stream, const MatmulArgs& args) {
  if (stream.device() == Device::cpu()) return matmul(stream, args);
  MatmulArgs bare = args;
  bare.bias = bare.pre_activation = {};
  bare.activation = Activation::kNone;
  matmul(stream, bare);
  detail::finish_product(stream, detail::gemm_of(args));
}

void check(const Case& c, const Finish& finish, DType dtype, Stream& stream) {
  CAPTURE(name_of(dtype), c.rows, c.columns, c.apart, c.offset);
  CAPTURE(static_cast<int>(finish.activation), finish.bias.has_value(), finish.kept);
  constexpr int64_t kDepth = 3;
  const int64_t stride = c.columns + c.apart;
  const Tensor a = random_tensor({c.rows, kDepth}, dtype, 1, stream);
  const Tensor b = random_tensor({kDepth, c.columns}, dtype, 2, stream);
  const Tensor whole = random_tensor({c.offset + c.rows * stride + 3}, dtype, 3, stream);
  const Tensor bias = finish.bias ? random_tensor({c.columns}, *finish.bias, 4, stream) : Tensor();
  const Tensor before = finish.kept ? Tensor::zeros({c.rows, c.columns}, dtype, stream) : Tensor();
  Values expected = values_of(whole);
  Values sums =
      reference::matmul(values_of(a), values_of(b), c.rows, c.columns, kDepth, false, false);
  const Values biases = finish.bias ? values_of(bias) : Values(sums.size(), 0.0);
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.columns; ++j) {
      double& sum = sums[static_cast<size_t>(i * c.columns + j)];
      sum += biases[static_cast<size_t>(j)];
      expected[static_cast<size_t>(c.offset + i * stride + j)] =
          reference::activation(finish.activation, sum);
    }
  }
  multiply_and_finish(stream, {.a = matrix(a, c.rows, kDepth),
                               .b = matrix(b, kDepth, c.columns),
                               .c = {whole, c.rows, c.columns, stride, c.offset},
                               .bias = bias,
                               .activation = finish.activation,
                               .pre_activation = before});
  REQUIRE(error_of(whole, expected) < 2 * tolerance_of(dtype));
  if (finish.kept) REQUIRE(error_of(before, sums) < 2 * tolerance_of(dtype));
}

}  // namespace

TEST_CASE("products of any place are finished with any bias and activation", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const Case& c : {Case{1, 1, 0, 0}, Case{3, 7, 0, 0}, Case{5, 64, 8, 16},
                          Case{4, 300, 5, 1}, Case{40, 16, 0, 0}, Case{3, 16, 0, 1}}) {
      for (const Activation kind : {Activation::kNone, Activation::kGeluTanh,
                                    Activation::kGeluExact, Activation::kSilu, Activation::kRelu}) {
        check(c, {kind, dtype, true}, dtype, s.stream);
        check(c, {kind, std::nullopt, true}, dtype, s.stream);
        check(c, {kind, DType::kF32, false}, dtype, s.stream);
      }
      check(c, {Activation::kSilu, DType::kF16, false}, dtype, s.stream);
      check(c, {Activation::kSilu, DType::kBF16, false}, dtype, s.stream);
    }
  }
}

}  // namespace ds::kernels
