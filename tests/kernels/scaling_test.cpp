// Columns times a number each, and numbers over roots, against plain loops, on views that begin
// anywhere, of any dtype.
#include "kernels/elementwise/scaling.h"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

// A matrix inside a larger one of random values: `beside` elements lie between its rows, and twice
// as many before the first.
MatrixView view_of(int64_t rows, int64_t columns, int64_t beside, DType dtype, uint64_t seed,
                   Stream& stream) {
  const int64_t stride = columns + beside;
  return {.tensor = random_tensor({2 * beside + rows * stride}, dtype, seed, stream),
          .rows = rows,
          .columns = columns,
          .row_stride = stride,
          .offset = 2 * beside};
}

struct Vectors {
  Tensor factors, bias;
};

Vectors vectors_of(int64_t columns, bool has_factors, std::optional<DType> bias, Stream& stream) {
  Vectors out;
  if (has_factors) out.factors = random_tensor({columns}, DType::kF32, 3, stream);
  if (bias) out.bias = random_tensor({columns}, *bias, 4, stream);
  return out;
}

// The whole tensor of y afterwards.
Values expected_of(const MatrixView& x, const Vectors& vectors, const MatrixView& y) {
  const Values from = values_of(x.tensor);
  const size_t columns = to_size(x.columns);
  const Values factors =
      vectors.factors.defined() ? values_of(vectors.factors) : Values(columns, 1);
  const Values bias = vectors.bias.defined() ? values_of(vectors.bias) : Values(columns, 0);
  Values to = values_of(y.tensor);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t j = 0; j < x.columns; ++j) {
      to[to_size(y.offset + i * y.row_stride + j)] =
          from[to_size(x.offset + i * x.row_stride + j)] * factors[to_size(j)] + bias[to_size(j)];
    }
  }
  return to;
}

// Elements of y and those beside it.
void check_scaled(const MatrixView& x, const Vectors& vectors, const MatrixView& y,
                  Stream& stream) {
  const Values before = values_of(y.tensor), expected = expected_of(x, vectors, y);
  scale_columns(stream, x, vectors.factors, vectors.bias, y);
  REQUIRE(error_of(y.tensor, expected) < tolerance_of(y.tensor.dtype()));
  const Values after = values_of(y.tensor);
  for (int64_t at = 0; at < y.tensor.numel(); ++at) {
    const int64_t column = (at - y.offset + y.row_stride) % y.row_stride;
    if (at < y.offset || column >= y.columns) REQUIRE(after[to_size(at)] == before[to_size(at)]);
  }
}

TEST_CASE("columns are scaled and shifted for any two dtypes, and what lies beside them stays",
          "[kernels][device]") {
  TestStream s(3);
  for (const DType of_x : float_dtypes()) {
    for (const DType of_y : float_dtypes()) {
      for (const int64_t columns : {1, 7, 8, 20, 33, 64, 300}) {
        for (const int64_t beside : {0, 3, 4, 8}) {
          CAPTURE(name_of(of_x), name_of(of_y), columns, beside);
          const MatrixView x = view_of(19, columns, beside, of_x, 1, s.stream);
          const Vectors vectors = vectors_of(columns, true, DType::kF32, s.stream);
          check_scaled(x, vectors, view_of(19, columns, beside, of_y, 2, s.stream), s.stream);
          check_scaled(x, vectors, view_of(19, columns, 0, of_y, 2, s.stream), s.stream);
        }
      }
    }
  }
}

TEST_CASE("factors and bias may be missing, and a bias has any dtype", "[kernels][device]") {
  TestStream s(3);
  for (const int64_t columns : {5, 1023, 1024, 1025, 2100}) {
    for (const bool has_factors : {false, true}) {
      for (const std::optional<DType> bias :
           {std::optional<DType>(), {DType::kF32}, {DType::kBF16}, {DType::kF16}}) {
        CAPTURE(columns, has_factors, bias ? name_of(*bias) : "no bias");
        const MatrixView x = view_of(3, columns, 1, DType::kF32, 1, s.stream);
        check_scaled(x, vectors_of(columns, has_factors, bias, s.stream),
                     view_of(3, columns, 2, DType::kF32, 2, s.stream), s.stream);
      }
    }
  }
}

TEST_CASE("without factors and bias elements are copied, zeros with their signs",
          "[kernels][device]") {
  TestStream s;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const Tensor x =
      tensor_of({-0.0, 0.0, 1.5, -2.0, kInfinite, -kInfinite}, {6}, DType::kF32, s.stream);
  const Tensor y = Tensor::empty({6}, DType::kF32, s.stream);
  scale_columns(s.stream, matrix(x, 2, 3), {}, {}, matrix(y, 2, 3));
  CHECK(same_bits(x, y));
}

TEST_CASE("columns are scaled where they lie, with the bits of a copy, on any number of threads",
          "[kernels][device]") {
  TestStream one(1), many(3);
  for (const DType dtype : float_dtypes()) {
    for (const int64_t beside : {0, 5, 8}) {
      CAPTURE(name_of(dtype), beside);
      const MatrixView x = view_of(50, 1208, beside, dtype, 1, one.stream);
      const MatrixView y = view_of(50, 1208, beside, dtype, 1, one.stream);
      const Vectors vectors = vectors_of(1208, true, dtype, one.stream);
      scale_columns(one.stream, x, vectors.factors, vectors.bias, y);
      one.stream.synchronize();
      scale_columns(many.stream, x, vectors.factors, vectors.bias, x);
      CHECK(same_bits(x.tensor, y.tensor));
    }
  }
}

TEST_CASE("scaling of nothing does nothing", "[kernels][device]") {
  TestStream s;
  const Tensor none = Tensor::zeros({0}, DType::kF32, s.stream);
  Tensor nothing = none;
  const Tensor three = tensor_of({1, 2, 3}, {3}, DType::kF32, s.stream);
  const MatrixView no_rows{none, 0, 3, 3, 0}, no_columns{none, 3, 0, 0, 0};
  CHECK_NOTHROW(scale_columns(s.stream, no_rows, three, three, no_rows));
  CHECK_NOTHROW(scale_columns(s.stream, no_columns, none, none, no_columns));
  CHECK_NOTHROW(over_roots(s.stream, none, none, nothing));
}

// Bits: a root and a quotient of fp32, each rounded once, and one more rounding to y.
Values quotients_of(const Tensor& x, const Tensor& squares) {
  Values out = values_of(x);
  const Values of_squares = values_of(squares);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(out[i]) / std::sqrt(static_cast<float>(of_squares[i]));
  }
  return out;
}

Tensor squares_of(const Tensor& x, Stream& stream) {
  Values values = values_of(x);
  for (double& value : values) value *= value;
  return tensor_of(values, x.shape(), DType::kF32, stream);
}

TEST_CASE("numbers over roots have the bits of a root and a quotient", "[kernels][device]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    for (const DType of_y : {DType::kF32, dtype}) {
      for (const int64_t n : {1, 7, 16, 33, 9999}) {
        for (const int64_t first : {0, 1, 8}) {
          CAPTURE(name_of(dtype), name_of(of_y), n, first);
          const Tensor x = random_tensor({n + first}, dtype, 1, s.stream).narrow(first, n);
          const Tensor squares =
              squares_of(random_tensor({n + first}, DType::kF32, 2, s.stream), s.stream)
                  .narrow(first, n);
          Tensor y = Tensor::empty({n}, of_y, s.stream);
          over_roots(s.stream, x, squares, y);
          REQUIRE(same_bits(y, tensor_of(quotients_of(x, squares), {n}, of_y, s.stream)));
        }
      }
    }
  }
}

TEST_CASE("numbers over roots may lie where an operand did", "[kernels][device]") {
  TestStream s(3);
  Tensor x = random_tensor({9001}, DType::kF32, 1, s.stream);
  Tensor squares = squares_of(random_tensor({9001}, DType::kF32, 2, s.stream), s.stream);
  const Tensor expected = tensor_of(quotients_of(x, squares), {9001}, DType::kF32, s.stream);
  const Tensor kept = random_tensor({9001}, DType::kF32, 1, s.stream);
  over_roots(s.stream, x, squares, x);
  CHECK(same_bits(x, expected));
  over_roots(s.stream, kept, squares, squares);
  CHECK(same_bits(squares, expected));
}

TEST_CASE("roots of 0, of infinity and of no number divide as IEEE 754 says", "[kernels][device]") {
  TestStream s;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor_of({1, -1, 0, 3, kNan, 1, 1}, {7}, DType::kF32, s.stream);
  const Tensor squares = tensor_of({0, 0, 0, INFINITY, 1, kNan, -1}, {7}, DType::kF32, s.stream);
  Tensor y = Tensor::empty({7}, DType::kF32, s.stream);
  over_roots(s.stream, x, squares, y);
  const Values got = values_of(y);
  CHECK(got[0] == INFINITY);
  CHECK(got[1] == -INFINITY);
  CHECK(got[3] == 0);
  for (const size_t i : {2, 4, 5, 6}) CHECK(std::isnan(got[i]));
}

}  // namespace
}  // namespace ds::kernels
