// Our matrix product and oneDNN's, side by side: matmul() runs only the one that suits the machine.
#include "kernels/gemm/gemm.h"

#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct Product {
  Tensor a, b, c, pre, bias;
  detail::Gemm gemm;
};

Product product(int flags, DType dtype, DType c_dtype, Stream& s) {
  const int64_t m = 45, n = 101, k = 300;
  const bool ta = (flags & 1) != 0;
  const bool tb = (flags & 2) != 0;
  Product p{.a = random_tensor({m * k}, dtype, 1, s),
            .b = random_tensor({k * n}, dtype, 2, s),
            .c = Tensor::empty({m * n}, c_dtype, s),
            .pre = Tensor::empty({m * n}, c_dtype, s),
            .bias = random_tensor({n}, dtype, 3, s),
            .gemm = {}};
  p.gemm = {.m = m,
            .n = n,
            .k = k,
            .a = {p.a.raw(), dtype, ta ? m : k, ta ? Transpose::kYes : Transpose::kNo},
            .b = {p.b.raw(), dtype, tb ? k : n, tb ? Transpose::kYes : Transpose::kNo},
            .c = {p.c.raw(), c_dtype, n, Transpose::kNo},
            .bias = p.bias.raw(),
            .bias_dtype = dtype,
            .activation = Activation::kSilu,
            .pre_activation = p.pre.raw()};
  return p;
}

}  // namespace

TEST_CASE("both matrix products match the reference, epilogue included", "[kernels]") {
  TestStream s(3);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (!detail::onednn_supports(s.stream, dtype)) continue;
    for (int flags = 0; flags < 4; ++flags) {
      for (const DType c_dtype : {dtype, DType::kF32}) {
        const Product p = product(flags, dtype, c_dtype, s.stream);
        Values before = reference::matmul(values_of(p.a), values_of(p.b), p.gemm.m, p.gemm.n,
                                          p.gemm.k, (flags & 1) != 0, (flags & 2) != 0);
        const Values bias = values_of(p.bias);
        for (size_t i = 0; i < before.size(); ++i) before[i] += bias[i % bias.size()];
        Values after = before;
        for (double& v : after) v = reference::activation(Activation::kSilu, v);
        for (const auto& run : {detail::gemm_packed, detail::gemm_onednn}) {
          INFO(name_of(dtype) << " -> " << name_of(c_dtype) << " transposes " << flags);
          run(s.stream, p.gemm);
          REQUIRE(error_of(p.pre, before) < tolerance_of(c_dtype));
          REQUIRE(error_of(p.c, after) < 2 * tolerance_of(c_dtype));
        }
      }
    }
  }
}

TEST_CASE("oneDNN has no product of fp16 operands, and says so", "[kernels]") {
  TestStream s;
  REQUIRE_FALSE(detail::onednn_supports(s.stream, DType::kF16));
  const Product p = product(0, DType::kF16, DType::kF16, s.stream);
  REQUIRE_THROWS_AS(detail::gemm_onednn(s.stream, p.gemm), Unsupported);
}

}  // namespace ds::kernels
