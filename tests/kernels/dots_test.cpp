// Sums of products along rows and down columns against plain loops in fp64, on views that begin
// anywhere, of any two dtypes.
#include "kernels/reduce/dots.h"

#include <string_view>

#include "core/device/trace.h"
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

enum class Along { kRows, kColumns };

// What the sums are, added to those `before`.
Values expected_of(Along along, const MatrixView& a, const MatrixView& b, Values before) {
  const Values of_a = values_of(a.tensor), of_b = values_of(b.tensor);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) {
      before[to_size(along == Along::kRows ? i : j)] +=
          of_a[to_size(a.offset + i * a.row_stride + j)] *
          of_b[to_size(b.offset + i * b.row_stride + j)];
    }
  }
  return before;
}

void run(Along along, Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
         Tensor& out) {
  along == Along::kRows ? row_dots(stream, a, b, write, out)
                        : column_dots(stream, a, b, write, out);
}

Tensor dots_of(Along along, Stream& stream, const MatrixView& a, const MatrixView& b) {
  Tensor out = Tensor::empty({along == Along::kRows ? a.rows : a.columns}, DType::kF32, stream);
  run(along, stream, a, b, Write::kOverwrite, out);
  return out;
}

// The sums stand among other numbers, which stay.
void check_sums(Along along, const MatrixView& a, const MatrixView& b, DType out_dtype,
                Stream& stream) {
  const int64_t count = along == Along::kRows ? a.rows : a.columns;
  const Tensor around = random_tensor({count + 2}, out_dtype, 7, stream);
  const Values before = values_of(around);
  Tensor out = around.narrow(1, count);
  Values expected(to_size(count));
  for (const Write write : {Write::kOverwrite, Write::kAccumulate}) {
    expected = expected_of(along, a, b, expected);
    run(along, stream, a, b, write, out);
    REQUIRE(error_of(out, expected) < tolerance_of(out_dtype));
  }
  CHECK(values_of(around).front() == before.front());
  CHECK(values_of(around).back() == before.back());
}

TEST_CASE("dots of rows match the reference for any two dtypes, overwrite or accumulate",
          "[kernels][device]") {
  TestStream s(3);
  for (const DType of_a : float_dtypes()) {
    for (const DType of_b : float_dtypes()) {
      for (const int64_t columns : {1, 7, 8, 20, 33, 64, 300, 2053}) {
        for (const int64_t beside : {0, 3, 4, 8}) {
          CAPTURE(name_of(of_a), name_of(of_b), columns, beside);
          const MatrixView a = view_of(9, columns, beside, of_a, 1, s.stream);
          check_sums(Along::kRows, a, view_of(9, columns, beside, of_b, 2, s.stream), DType::kF32,
                     s.stream);
        }
      }
    }
  }
}

TEST_CASE("dots of columns match the reference for any dtypes, overwrite or accumulate",
          "[kernels][device]") {
  TestStream s(3);
  for (const DType of_a : float_dtypes()) {
    for (const DType of_b : float_dtypes()) {
      for (const DType of_out : float_dtypes()) {
        for (const int64_t rows : {1, 63, 64, 65, 131}) {
          for (const int64_t columns : {5, 64, 203}) {
            CAPTURE(name_of(of_a), name_of(of_b), name_of(of_out), rows, columns);
            const MatrixView a = view_of(rows, columns, 3, of_a, 1, s.stream);
            check_sums(Along::kColumns, a, view_of(rows, columns, 0, of_b, 2, s.stream), of_out,
                       s.stream);
          }
        }
      }
    }
  }
}

TEST_CASE("sums of squares are dots of a matrix with itself", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    const MatrixView x = view_of(70, 130, 5, dtype, 4, s.stream);
    check_sums(Along::kRows, x, x, DType::kF32, s.stream);
    check_sums(Along::kColumns, x, x, DType::kF32, s.stream);
  }
}

struct Bytes final : Trace {
  void on_op(std::string_view /*name*/, const OpCost& cost) override { last = cost.bytes; }
  double last = 0;
};

TEST_CASE("one matrix that is both operands of dots costs one reading", "[kernels]") {
  Bytes bytes;
  TestStream s(1, size_t{1} << 20, &bytes);
  const MatrixView x = matrix(Tensor::zeros({6, 10}, DType::kBF16, s.stream), 6, 10);
  const auto cost = [&](const MatrixView& a, const MatrixView& b) {
    Tensor out = Tensor::empty({a.rows}, DType::kF32, s.stream);
    row_dots(s.stream, a, b, Write::kOverwrite, out);
    return bytes.last;
  };
  CHECK(cost(x, x) == 6 * 10 * 2 + 6 * 4);
  CHECK(cost(x, matrix(Tensor::zeros({6, 10}, DType::kF32, s.stream), 6, 10)) ==
        6 * 10 * (2 + 4) + 6 * 4);
  CHECK(cost(columns_of(x, 0, 4), columns_of(x, 1, 4)) == 2 * 6 * 4 * 2 + 6 * 4);
}

TEST_CASE("dots have the same bits on any number of threads, and wherever a matrix lies",
          "[kernels][device]") {
  TestStream one(1), many(3);
  constexpr int64_t kRows = 90, kColumns = 517;
  for (const DType dtype : float_dtypes()) {
    const MatrixView a = view_of(kRows, kColumns, 3, dtype, 1, one.stream);
    const MatrixView b = view_of(kRows, kColumns, 0, DType::kBF16, 2, one.stream);
    const Tensor dense = Tensor::empty({kRows, kColumns}, dtype, one.stream);
    for (int64_t row = 0; row < kRows; ++row) {
      const Tensor from = a.tensor.narrow(a.offset + row * a.row_stride, kColumns);
      const Tensor to = dense.narrow(row * kColumns, kColumns);
      one.stream.copy(from.address(), to.address(), to.bytes());
    }
    one.stream.synchronize();
    for (const Along along : {Along::kRows, Along::kColumns}) {
      CAPTURE(name_of(dtype), along == Along::kRows);
      const Tensor alone = dots_of(along, one.stream, a, b);
      CHECK(same_bits(alone, dots_of(along, many.stream, a, b)));
      CHECK(same_bits(alone, dots_of(along, one.stream, matrix(dense, kRows, kColumns), b)));
    }
  }
}

TEST_CASE("dots of some columns have the bits of those of all", "[kernels][device]") {
  TestStream s;
  const MatrixView a = view_of(140, 215, 0, DType::kBF16, 1, s.stream);
  const MatrixView b = view_of(140, 215, 0, DType::kF32, 2, s.stream);
  const Tensor all = dots_of(Along::kColumns, s.stream, a, b);
  for (const int64_t first : {0, 1, 70}) {
    const int64_t count = a.columns - first - 3;
    const Tensor some = dots_of(Along::kColumns, s.stream, columns_of(a, first, count),
                                columns_of(b, first, count));
    CHECK(same_bits(some, all.narrow(first, count)));
  }
}

TEST_CASE("dots of nothing are 0, or what was there", "[kernels][device]") {
  TestStream s;
  const Tensor none = Tensor::zeros({0}, DType::kBF16, s.stream);
  Tensor out = tensor_of({1, 2, 3}, {3}, DType::kF32, s.stream), empty = out.narrow(0, 0);
  const MatrixView no_columns{none, 3, 0, 0, 0}, no_rows{none, 0, 3, 3, 0};
  row_dots(s.stream, no_columns, no_columns, Write::kAccumulate, out);
  column_dots(s.stream, no_rows, no_rows, Write::kAccumulate, out);
  CHECK_NOTHROW(row_dots(s.stream, no_rows, no_rows, Write::kOverwrite, empty));
  CHECK_NOTHROW(column_dots(s.stream, no_columns, no_columns, Write::kOverwrite, empty));
  CHECK(values_of(out) == Values{1, 2, 3});
  column_dots(s.stream, no_rows, no_rows, Write::kOverwrite, out);
  CHECK(values_of(out) == Values(3, 0.0));
  out = tensor_of({1, 2, 3}, {3}, DType::kF32, s.stream);
  row_dots(s.stream, no_columns, no_columns, Write::kOverwrite, out);
  CHECK(values_of(out) == Values(3, 0.0));
}

}  // namespace
}  // namespace ds::kernels
