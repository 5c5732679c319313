// Elements by their places, sums of squares down columns and sums with a factor, against plain
// loops over the same numbers.
#include "kernels/selection/selection.h"

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

std::vector<int32_t> every_third(int64_t numel) {
  std::vector<int32_t> places;
  for (int64_t i = numel - 1; i >= 0; i -= 3) places.push_back(static_cast<int32_t>(i));
  return places;
}

TEST_CASE("elements are taken from their places and put back there, and nowhere else",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {1, 17, 9999}) {
      INFO(name_of(dtype) << " n " << n);
      const Tensor x = random_tensor({n}, dtype, 1, s.stream);
      const std::vector<int32_t> at = every_third(n);
      const auto count = static_cast<int64_t>(at.size());
      const Tensor places = testing::upload(at, {count}, s.stream);
      Tensor taken = Tensor::empty({count}, dtype, s.stream);
      take(s.stream, x, places, taken);
      const Values all = values_of(x);
      Values expected;
      for (const int32_t place : at) expected.push_back(all[static_cast<size_t>(place)]);
      REQUIRE(values_of(taken) == expected);

      Tensor y = random_tensor({n}, dtype, 2, s.stream);
      Values after = values_of(y);
      for (size_t i = 0; i < at.size(); ++i) after[static_cast<size_t>(at[i])] = expected[i];
      put(s.stream, taken, places, y);
      REQUIRE(values_of(y) == after);
    }
  }
}

TEST_CASE("squares of columns are those of any range of a matrix", "[kernels][device]") {
  TestStream s;
  const std::vector<MatrixRange> ranges{{.first = 0, .numel = 12, .columns = 4},
                                        {.first = 3, .numel = 2, .columns = 4},
                                        {.first = 5, .numel = 1, .columns = 7},
                                        {.first = 13, .numel = 3000, .columns = 5},
                                        {.first = 700, .numel = 9001, .columns = 33}};
  for (const DType dtype : float_dtypes()) {
    for (const MatrixRange& range : ranges) {
      INFO(name_of(dtype) << " " << range.first << "+" << range.numel << " of " << range.columns);
      const Tensor x = random_tensor({range.numel}, dtype, 3, s.stream);
      Tensor parts = Tensor::empty({groups_of_rows(range) * range.columns}, DType::kF64, s.stream);
      Tensor totals = Tensor::empty({range.columns}, DType::kF64, s.stream);
      column_squares(s.stream, x, range, parts, totals);
      Values expected(static_cast<size_t>(range.columns), 0.0);
      const Values all = values_of(x);
      for (int64_t i = 0; i < range.numel; ++i) {
        const double value = all[static_cast<size_t>(i)];
        expected[static_cast<size_t>((range.first + i) % range.columns)] += value * value;
      }
      const Tensor on_host = testing::host_copy(totals);
      for (int64_t c = 0; c < range.columns; ++c) {
        REQUIRE(on_host.data<double>()[c] ==
                Approx(expected[static_cast<size_t>(c)]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("a tensor times a factor is added to fp32 sums", "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t n : {1, 15, 5003}) {
      const Tensor x = random_tensor({n}, dtype, 4, s.stream);
      Tensor y = random_tensor({n}, DType::kF32, 5, s.stream);
      Values expected = values_of(y);
      const Values vx = values_of(x);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += 0.375 * vx[i];
      add_scaled(s.stream, 0.375F, x, y);
      REQUIRE(error_of(y, expected) < tolerance_of(DType::kF32));
    }
  }
}

TEST_CASE("operands that do not go together are refused before anything is done", "[kernels]") {
  TestStream s;
  const Tensor x = random_tensor({12}, DType::kF32, 1, s.stream);
  const Tensor places = testing::upload(std::vector<int32_t>{1, 2}, {2}, s.stream);
  Tensor one = Tensor::empty({1}, DType::kF32, s.stream);
  Tensor half = Tensor::empty({2}, DType::kF16, s.stream);
  Tensor parts = Tensor::empty({4}, DType::kF64, s.stream);
  Tensor totals = Tensor::empty({4}, DType::kF64, s.stream);
  CHECK_THROWS_WITH(take(s.stream, x, places, one), Catch::Contains("take: to has shape [1]"));
  CHECK_THROWS_WITH(take(s.stream, x, places, half),
                    Catch::Contains("take: from is fp32, expected fp16"));
  CHECK_THROWS_WITH(put(s.stream, one, places, half), Catch::Contains("put: from has shape [1]"));
  CHECK_THROWS_WITH(add_scaled(s.stream, 1, x, half),
                    Catch::Contains("add_scaled: y is fp16, expected fp32"));
  const auto squares = [&](const MatrixRange& range) {
    column_squares(s.stream, x, range, parts, totals);
  };
  CHECK_THROWS_WITH(squares({.first = 0, .numel = 11, .columns = 4}),
                    Catch::Contains("column_squares: x has shape [12]"));
  CHECK_THROWS_WITH(squares({.first = 0, .numel = 12, .columns = 3}),
                    Catch::Contains("column_squares: totals has shape [4]"));
}

}  // namespace
}  // namespace ds::kernels
