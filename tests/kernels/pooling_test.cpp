// The mean of each sample's rows and its gradient, against plain loops over the same numbers.
#include "kernels/pooling/pooling.h"

#include <functional>
#include <utility>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct Extents {
  int64_t length, width;
  std::vector<std::pair<int32_t, int32_t>> ranges;  // of the samples
};

const std::vector<Extents>& all_extents() {
  static const std::vector<Extents> all{{1, 1, {{0, 1}}},
                                        {4, 3, {{0, 4}, {0, 2}, {1, 3}, {3, 4}}},
                                        {7, 65, {{0, 7}, {2, 2}, {0, 1}}},
                                        {33, 300, {{0, 31}, {5, 33}}}};
  return all;
}

// Rows but the first of a sample have ranges of their own, which say nothing of the mean.
Tensor ranges_of(const Extents& extents, Stream& stream) {
  std::vector<int32_t> numbers;
  for (const auto& [begin, end] : extents.ranges) {
    numbers.insert(numbers.end(), {begin, end});
    for (int64_t row = 1; row < extents.length; ++row) numbers.insert(numbers.end(), {0, 1});
  }
  return testing::upload(numbers, {std::ssize(extents.ranges), extents.length, 2}, stream);
}

// Calls work(range, first element of a sample, column).
template <class Work>
void each_column(const Extents& extents, Work&& work) {
  for (size_t sample = 0; sample < extents.ranges.size(); ++sample) {
    const size_t first = sample * static_cast<size_t>(extents.length * extents.width);
    for (size_t column = 0; column < static_cast<size_t>(extents.width); ++column) {
      work(extents.ranges[sample], first, column);
    }
  }
}

using Loop = std::function<void(const Extents& extents, const Values& from, Values& expected)>;

// Compares what `kernel` makes of random rows with the numbers of a loop over them, of all extents
// and dtypes; what is 0 there is 0 to the bit.
void check_against(decltype(mean_rows)& kernel, const Loop& loop) {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const Extents& extents : all_extents()) {
      INFO(name_of(dtype) << " " << extents.length << " rows of " << extents.width);
      const int64_t rows = std::ssize(extents.ranges) * extents.length;
      const Tensor x = random_tensor({rows, extents.width}, dtype, 1, s.stream);
      Tensor y = random_tensor({rows, extents.width}, dtype, 2, s.stream);
      kernel(s.stream, x, ranges_of(extents, s.stream), extents.length, y);
      const Values from = values_of(x);
      Values expected(from.size(), 0.0);
      loop(extents, from, expected);
      REQUIRE(error_of(y, expected) < tolerance_of(dtype));
      const Values got = values_of(y);
      for (size_t i = 0; i < got.size(); ++i) {
        if (expected[i] == 0) REQUIRE(got[i] == 0);
      }
    }
  }
}

TEST_CASE("the mean of a sample's rows stands in its first one", "[kernels][device]") {
  check_against(mean_rows, [](const Extents& extents, const Values& from, Values& expected) {
    const auto width = static_cast<size_t>(extents.width);
    each_column(extents, [&](const auto& range, size_t first, size_t column) {
      double sum = 0;
      for (int32_t row = range.first; row < range.second; ++row) {
        sum += from[first + static_cast<size_t>(row) * width + column];
      }
      const int32_t count = range.second - range.first;
      expected[first + column] = count > 0 ? sum / count : 0;
    });
  });
}

TEST_CASE("rows in the mean share its gradient, and no others have one", "[kernels][device]") {
  check_against(mean_rows_backward,
                [](const Extents& extents, const Values& from, Values& expected) {
                  const auto width = static_cast<size_t>(extents.width);
                  each_column(extents, [&](const auto& range, size_t first, size_t column) {
                    for (int32_t row = range.first; row < range.second; ++row) {
                      expected[first + static_cast<size_t>(row) * width + column] =
                          from[first + column] / (range.second - range.first);
                    }
                  });
                });
}

TEST_CASE("a mean wants a range for each row", "[kernels]") {
  TestStream s;
  const Tensor x = Tensor::zeros({8, 3}, DType::kF32, s.stream);
  Tensor y = Tensor::zeros({8, 3}, DType::kF32, s.stream);
  const Tensor ranges = Tensor::zeros({2, 4, 2}, DType::kI32, s.stream);
  CHECK_NOTHROW(mean_rows(s.stream, x, ranges, 4, y));
  CHECK_THROWS_AS(mean_rows(s.stream, x, ranges, 0, y), InternalError);
  CHECK_THROWS_AS(mean_rows(s.stream, x, ranges, 3, y), InternalError);
  CHECK_THROWS_AS(mean_rows(s.stream, x, {}, 4, y), InternalError);
  const Tensor few = Tensor::zeros({1, 4, 2}, DType::kI32, s.stream);
  CHECK_THROWS_AS(mean_rows(s.stream, x, few, 4, y), InternalError);
  Tensor halves = Tensor::zeros({8, 3}, DType::kBF16, s.stream);
  CHECK_THROWS_AS(mean_rows(s.stream, x, ranges, 4, halves), InternalError);
  CHECK_THROWS_AS(mean_rows_backward(s.stream, x, few, 4, y), InternalError);
}

}  // namespace
}  // namespace ds::kernels
