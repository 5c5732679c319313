// Elementwise operations and reductions against the fp64 reference, over dtypes and odd lengths.
#include <array>
#include <bit>
#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/runs.h"
#include "kernels/reduce/reduce.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/sums.h"

namespace ds::kernels {
namespace {

using namespace reference;
using testing::squares_of;
using testing::sum_of;

constexpr int64_t kLengths[] = {1, 15, 16, 17, 4096, 9999};

}  // namespace

TEST_CASE("elementwise operations match the reference in every dtype", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : kLengths) {
      INFO(name_of(dtype) << " n " << n);
      const Tensor a = random_tensor({n}, dtype, 1, s.stream);
      const Tensor b = random_tensor({n}, dtype, 2, s.stream);
      Tensor y = Tensor::empty({n}, dtype, s.stream);
      add(s.stream, a, b, y);
      Values expected = values_of(a);
      const Values vb = values_of(b);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += vb[i];
      REQUIRE(error_of(y, expected) < tolerance_of(dtype));
      scale(s.stream, -0.5F, y);
      expected = values_of(y);
      fill(s.stream, y, 3.0F);
      REQUIRE(error_of(y, Values(expected.size(), 3.0)) == 0);
    }
  }
}

TEST_CASE("casts round to nearest even and keep infinities and NaN, as the scalar types do",
          "[kernels][device]") {
  TestStream s;
  Values special{0.0,   -0.0,     1.0,       65504,      65519.9,    65520,        1e30,   -1e30,
                 1e-30, INFINITY, -INFINITY, 1.00390625, 1.01171875, 5.9604645e-8, 2.9e-8, 6.1e-5};
  for (int i = 0; i < 500; ++i) special.push_back(std::ldexp(1.0 + i / 500.0, i % 60 - 30));
  const auto n = static_cast<int64_t>(special.size());
  const Tensor x = tensor_of(special, {n}, DType::kF32, s.stream);
  Tensor bf16 = Tensor::empty({n}, DType::kBF16, s.stream);
  Tensor fp16 = Tensor::empty({n}, DType::kF16, s.stream);
  Tensor back = Tensor::empty({n}, DType::kF32, s.stream);
  cast(s.stream, x, bf16);
  REQUIRE(same_bits(bf16, tensor_of(special, {n}, DType::kBF16, s.stream)));
  cast(s.stream, x, fp16);
  REQUIRE(same_bits(fp16, tensor_of(special, {n}, DType::kF16, s.stream)));
  cast(s.stream, fp16, back);
  REQUIRE(error_of(back.narrow(0, 4), {0.0, 0.0, 1.0, 65504}) == 0);
  REQUIRE(std::isinf(values_of(back)[5]));
  const Tensor nan = tensor_of(Values(20, std::nan("")), {20}, DType::kF32, s.stream);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Tensor y = Tensor::empty({20}, dtype, s.stream);
    cast(s.stream, nan, y);
    for (const double v : values_of(y)) REQUIRE(std::isnan(v));
  }
  // Nothing is left of this one if it is rounded as a number.
  const std::vector<float> full(20, std::bit_cast<float>(0x7fffffffU));
  const Tensor full_nan = Tensor::empty({20}, DType::kF32, s.stream);
  s.stream.copy(full.data(), full_nan.address(), full_nan.bytes());
  Tensor y = Tensor::empty({20}, DType::kBF16, s.stream);
  cast(s.stream, full_nan, y);
  for (const double v : values_of(y)) REQUIRE(std::isnan(v));
}

TEST_CASE("runs are copied to their places, and what lies between stays", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t numel : {1, 3, 8, 64}) {
      CAPTURE(name_of(dtype), numel);
      const RunGrid grid{.outer = 3, .inner = 5, .numel = numel};
      const RunPlaces dense{.first = numel, .outer = 5 * numel, .inner = numel};
      const RunPlaces apart{.first = 2 * numel, .outer = numel, .inner = 4 * numel};
      const Tensor from = random_tensor({16 * numel}, dtype, 1, s.stream);
      Tensor to = random_tensor({24 * numel}, dtype, 2, s.stream);
      Values expected = values_of(to);
      const Values source = values_of(from);
      for (int64_t run = 0; run < 15; ++run) {
        for (int64_t i = 0; i < numel; ++i) {
          const int64_t at = 2 * numel + run / 5 * numel + run % 5 * 4 * numel + i;
          expected[static_cast<size_t>(at)] = source[static_cast<size_t>((run + 1) * numel + i)];
        }
      }
      copy_runs(s.stream, grid, from, dense, to, apart);
      REQUIRE(values_of(to) == expected);
    }
  }
  Tensor small = Tensor::zeros({7}, DType::kF32, s.stream);
  const Tensor narrow = Tensor::zeros({8}, DType::kBF16, s.stream);
  const RunGrid grid{.outer = 2, .inner = 2, .numel = 2};
  const RunPlaces places{.outer = 4, .inner = 2};
  CHECK_THROWS_WITH(copy_runs(s.stream, grid, small, places, small, places),
                    Catch::Contains("the last run of from ends at 8, and it has 7 elements"));
  Tensor wide = Tensor::zeros({8}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(copy_runs(s.stream, grid, narrow, places, wide, places),
                    Catch::Contains("copy_runs"));
}

TEST_CASE("accumulate adds across dtypes", "[kernels][device]") {
  TestStream s;
  for (const DType from : float_dtypes()) {
    for (const DType to : float_dtypes()) {
      const Tensor x = random_tensor({1003}, from, 1, s.stream);
      Tensor y = random_tensor({1003}, to, 2, s.stream);
      Values expected = values_of(y);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += values_of(x)[i];
      accumulate(s.stream, x, y);
      REQUIRE(error_of(y, expected) < tolerance_of(to));
    }
  }
}

TEST_CASE("sums are exact to fp64 and independent of the number of threads", "[kernels][device]") {
  TestStream one(1);
  TestStream many(3);
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {1, 100, 4097, 50001}) {
      const Tensor x = random_tensor({n}, dtype, 1, one.stream);
      double expected = 0;
      double squares = 0;
      for (const double v : values_of(x)) {
        expected += v;
        squares += v * v;
      }
      INFO(name_of(dtype) << " n " << n);
      REQUIRE(sum_of(one.stream, x) == Approx(expected).epsilon(1e-11).margin(1e-9));
      REQUIRE(squares_of(one.stream, x) == Approx(squares).epsilon(1e-12));
      REQUIRE(sum_of(one.stream, x) == sum_of(many.stream, x));
      REQUIRE(squares_of(one.stream, x) == squares_of(many.stream, x));
    }
  }
}

TEST_CASE("sums are divided, and overwrite or add to what is there", "[kernels][device]") {
  TestStream s;
  const Tensor x = tensor_of({1, 2, 6}, {3}, DType::kF32, s.stream);
  const Tensor totals = Tensor::empty({2}, DType::kF64, s.stream);
  const std::array<double, 2> before{100, 100};
  s.stream.copy(before.data(), totals.address(), totals.bytes());
  const auto value = [&](int64_t i) { return testing::number_in(s.stream, totals.narrow(i, 1)); };
  sum_into(s.stream, x, 3.0, Write::kAccumulate, totals.narrow(1, 1));
  CHECK(value(1) == 103);
  sum_of_squares_into(s.stream, x, Write::kAccumulate, totals.narrow(1, 1));
  CHECK(value(1) == 144);
  sum_into(s.stream, x, 2.0, Write::kOverwrite, totals.narrow(1, 1));
  CHECK(value(1) == 4.5);
  sum_of_squares_into(s.stream, x, Write::kOverwrite, totals.narrow(1, 1));
  CHECK(value(1) == 41);
  CHECK(value(0) == 100);
}

TEST_CASE("sums have the same bits wherever a tensor begins", "[kernels][device]") {
  TestStream s;
  constexpr int64_t kNumel = 9001;
  const Tensor total = Tensor::empty({1}, DType::kF64, s.stream);
  for (const DType dtype : float_dtypes()) {
    const Tensor whole = random_tensor({kNumel + 8}, dtype, 3, s.stream);
    for (const int64_t first : {1, 3, 8}) {
      const Tensor part = whole.narrow(first, kNumel);
      const Tensor copy = Tensor::empty({kNumel}, dtype, s.stream);
      s.stream.copy(part.address(), copy.address(), part.bytes());
      sum_of_squares_into(s.stream, copy, Write::kOverwrite, total);
      const double expected = testing::number_in(s.stream, total);
      sum_of_squares_into(s.stream, part, Write::kOverwrite, total);
      CHECK(testing::number_in(s.stream, total) == expected);
      CHECK(all_finite(s.stream, part));
    }
  }
}

TEST_CASE("all_finite finds one infinity or NaN anywhere", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t at : {-1, 0, 500, 9998}) {
      for (const double poison : {static_cast<double>(INFINITY), std::nan("")}) {
        Values values(9999, 1.0);
        if (at >= 0) values[static_cast<size_t>(at)] = poison;
        const Tensor x = tensor_of(values, {9999}, dtype, s.stream);
        REQUIRE(all_finite(s.stream, x) == (at < 0));
      }
    }
  }
}

TEST_CASE("column sums match the reference, overwrite or accumulate", "[kernels][device]") {
  TestStream s(3);
  for (const DType dtype : float_dtypes()) {
    for (const int64_t columns : {1, 5, 64, 200}) {
      const Tensor x = random_tensor({131, columns}, dtype, 1, s.stream);
      const Values values = values_of(x);
      Values expected(static_cast<size_t>(columns));
      for (size_t i = 0; i < values.size(); ++i) expected[i % expected.size()] += values[i];
      Tensor y = Tensor::empty({columns}, DType::kF32, s.stream);
      column_sum(s.stream, x, Write::kOverwrite, y);
      REQUIRE(error_of(y, expected) < 1e-5);
      column_sum(s.stream, x, Write::kAccumulate, y);
      for (double& v : expected) v *= 2;
      REQUIRE(error_of(y, expected) < 1e-5);
    }
  }
}

TEST_CASE("sums of some columns have the bits of those of all", "[kernels][device]") {
  TestStream s;
  const int64_t columns = 215;
  const Tensor x = random_tensor({150, columns}, DType::kBF16, 3, s.stream);
  Tensor all = Tensor::empty({columns}, DType::kF32, s.stream);
  column_sum(s.stream, x, Write::kOverwrite, all);
  for (const int64_t first : {0, 1, 70}) {
    Tensor some = Tensor::empty({columns - first - 3}, DType::kF32, s.stream);
    const MatrixView whole = matrix(x, 150, columns);
    column_sum(s.stream, columns_of(whole, first, some.numel()), Write::kOverwrite, some);
    CHECK(same_bits(some, all.narrow(first, some.numel())));
    MatrixView beyond = columns_of(whole, first, some.numel());
    beyond.offset += x.numel();
    CHECK_THROWS_WITH(column_sum(s.stream, beyond, Write::kOverwrite, some),
                      Catch::Contains("column_sum: x ends at element"));
  }
}

TEST_CASE("streaming operations refuse operands of other sizes or dtypes", "[kernels][device]") {
  TestStream s;
  const Tensor a = random_tensor({8}, DType::kF32, 1, s.stream);
  Tensor y = Tensor::empty({9}, DType::kF32, s.stream);
  REQUIRE_THROWS_WITH(add(s.stream, a, a, y), Catch::Contains("add: a has shape [8]"));
  Tensor tokens = tokens_of({1, 2}, s.stream);
  REQUIRE_THROWS_WITH(fill(s.stream, tokens, 1.0F), Catch::Contains("fill: y is int32"));
  Tensor undefined;
  REQUIRE_THROWS_WITH(cast(s.stream, a, undefined), Catch::Contains("undefined"));
}

TEST_CASE("the largest of numbers is found wherever it is", "[kernels][device]") {
  TestStream s;
  const Tensor total = Tensor::empty({1}, DType::kF64, s.stream);
  const auto largest = [&](const std::vector<float>& x) {
    largest_into(s.stream, testing::upload(x, {static_cast<int64_t>(x.size())}, s.stream), total);
    double found = 0;
    s.stream.copy(total.address(), &found, sizeof found);
    s.stream.synchronize();
    return found;
  };
  CHECK(largest({-3.0F}) == -3.0);
  for (const size_t at : {size_t{0}, size_t{255}, size_t{256}, size_t{4096}, size_t{9999}}) {
    std::vector<float> x(10000, -5.0F);
    x[at] = -0.5F;
    CHECK(largest(x) == -0.5);
  }
}

}  // namespace ds::kernels
