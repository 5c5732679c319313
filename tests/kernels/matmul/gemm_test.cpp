// Our matrix product and oneDNN's, side by side: matmul() runs only the one that suits the machine.
#include "kernels/matmul/gemm.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/matmul/cpu_features.h"
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

// One row times a matrix, as generation computes it, with everything that a product can carry.
Product row_product(int64_t n, int64_t k, Transpose transpose_b, DType dtype, DType c_dtype,
                    Stream& s) {
  const int64_t rows = transpose_b == Transpose::kYes ? n : k;
  const int64_t columns = transpose_b == Transpose::kYes ? k : n;
  Product p{.a = random_tensor({k}, dtype, 1, s),
            .b = random_tensor({rows * (columns + 3)}, dtype, 2, s),
            .c = Tensor::empty({n}, c_dtype, s),
            .pre = Tensor::empty({n}, c_dtype, s),
            .bias = random_tensor({n}, DType::kF16, 3, s),
            .gemm = {}};
  p.gemm = {.m = 1,
            .n = n,
            .k = k,
            .a = {p.a.raw(), dtype, k, Transpose::kNo},
            .b = {p.b.raw(), dtype, columns + 3, transpose_b},
            .c = {p.c.raw(), c_dtype, n, Transpose::kNo},
            .bias = p.bias.raw(),
            .bias_dtype = DType::kF16,
            .activation = Activation::kGeluTanh,
            .pre_activation = p.pre.raw()};
  return p;
}

TEST_CASE("one row times a matrix carries bias of another type, activation and what was before",
          "[kernels]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    for (const DType c_dtype : {dtype, DType::kF32}) {
      for (const Transpose transpose : {Transpose::kNo, Transpose::kYes}) {
        for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{
                 {1, 1}, {7, 130}, {130, 7}, {257, 65}, {1000, 33}}) {
          const Product p = row_product(n, k, transpose, dtype, c_dtype, s.stream);
          CAPTURE(name_of(dtype), name_of(c_dtype), n, k, static_cast<int>(transpose));
          const Values a = values_of(p.a), b = values_of(p.b), bias = values_of(p.bias);
          const bool flip = transpose == Transpose::kYes;
          const int64_t stride = p.gemm.b.row_stride;
          Values before(static_cast<size_t>(n)), after;
          for (int64_t j = 0; j < n; ++j) {
            double& sum = before[static_cast<size_t>(j)];
            sum = bias[static_cast<size_t>(j)];
            for (int64_t l = 0; l < k; ++l) {
              const int64_t at = flip ? j * stride + l : l * stride + j;
              sum += a[static_cast<size_t>(l)] * b[static_cast<size_t>(at)];
            }
          }
          for (const double value : before) {
            after.push_back(reference::activation(Activation::kGeluTanh, value));
          }
          REQUIRE(detail::is_vector_product(p.gemm));
          for (const auto& run : {detail::gemm_vector, detail::gemm_packed}) {
            run(s.stream, p.gemm);
            REQUIRE(error_of(p.pre, before) < tolerance_of(c_dtype));
            REQUIRE(error_of(p.c, after) < 2 * tolerance_of(c_dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("a machine says what its kernels use", "[kernels]") {
  const CpuFeatures features = cpu_features();
  CHECK(std::ranges::count(features.onednn_version, '.') == 2);
  CHECK(features.onednn_version.front() != '.');
  CHECK_FALSE(features.onednn_isa.empty());
  CHECK_FALSE(features.vectors.empty());
  // bf16 products are said to be fast only where oneDNN has them at all.
  TestStream s;
  if (features.bf16_products) CHECK(detail::onednn_supports(s.stream, DType::kBF16));
  CHECK(cpu_features().onednn_isa == features.onednn_isa);
}

}  // namespace ds::kernels
