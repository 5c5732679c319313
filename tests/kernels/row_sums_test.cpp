// Rows of a table's gradient on their way to other ranks: which they are, and that their sums have
// the bits of a reduction of whole tables, whatever the dtypes.
#include <algorithm>
#include <cstring>
#include <optional>

#include "core/status/error.h"
#include "kernels/embedding/embedding.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

std::vector<int32_t> numbers_of(const Tensor& tensor) {
  const std::vector<std::byte> bytes = bytes_of(tensor);
  std::vector<int32_t> numbers(to_size(tensor.numel()));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::vector<int32_t> distinct(const std::vector<int32_t>& tokens, int64_t room, Stream& stream) {
  Tensor rows = Tensor::empty({room}, DType::kI32, stream);
  distinct_tokens(stream, order_of(tokens, stream), rows);
  return numbers_of(rows);
}

TEST_CASE("tokens are listed once, ascending, and what is left has no row", "[kernels][device]") {
  TestStream s;
  CHECK(distinct({3, 0, 3, 3, 6, 0}, 5, s.stream) == std::vector<int32_t>{0, 3, 6, kNoRow, kNoRow});
  CHECK(distinct({3, 0, 3, 3, 6, 0}, 3, s.stream) == std::vector<int32_t>{0, 3, 6});
  CHECK(distinct({5}, 2, s.stream) == std::vector<int32_t>{5, kNoRow});
  CHECK(distinct({}, 2, s.stream) == std::vector<int32_t>{kNoRow, kNoRow});
  std::vector<int32_t> many(3000), expected;  // more than a thread of a GPU looks at
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int32_t>(i * i % 2003);
  expected = many;
  std::ranges::sort(expected);
  expected.erase(std::ranges::unique(expected).begin(), expected.end());
  expected.resize(3000, kNoRow);
  CHECK(distinct(many, 3000, s.stream) == expected);
}

TEST_CASE("rows are taken as they are, and no row is zeros", "[kernels][device]") {
  TestStream s;
  for (const int64_t width : {8, 31}) {
    const Tensor table = random_tensor({7, width}, DType::kF32, 1, s.stream);
    const Values all = values_of(table);
    Tensor values = random_tensor({4, width}, DType::kF32, 2, s.stream);
    take_rows(s.stream, table, tokens_of({6, 0, 2, kNoRow}, s.stream), values);
    const Values got = values_of(values);
    const std::vector<size_t> rows{6, 0, 2};
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t k = i / to_size(width), c = i % to_size(width);
      CHECK(got[i] == (k < 3 ? all[rows[k] * to_size(width) + c] : 0.0));
    }
  }
}

// Lists of three parts, and values of every dtype into tables of every dtype.
TEST_CASE("sums of rows are made in the order of the parts, in fp32, and rounded as a reduction's",
          "[kernels][device]") {
  TestStream s(3);
  const std::vector<int32_t> lists{1, 4, kNoRow, 0, 1, 4, 4, 5, 6};
  const Tensor rows = tokens_of(lists, s.stream);
  const auto round_to = [&](float x, DType dtype) {
    return static_cast<float>(values_of(tensor_of({x}, {1}, dtype, s.stream))[0]);
  };
  for (const DType from : float_dtypes()) {
    for (const DType to : float_dtypes()) {
      for (const Write write : {Write::kOverwrite, Write::kAccumulate}) {
        for (const int64_t width : {16, 5}) {
          CAPTURE(name_of(from), name_of(to), write == Write::kAccumulate, width);
          const Tensor values = random_tensor({9, width}, from, 1, s.stream);
          Tensor table = random_tensor({8, width}, to, 2, s.stream);
          const Values given = values_of(values), before = values_of(table);
          sum_rows(s.stream, rows, values, 3, write, table);
          const Values got = values_of(table);
          for (int32_t row = 0; row < 8; ++row) {
            for (size_t c = 0; c < to_size(width); ++c) {
              const size_t at = static_cast<size_t>(row) * to_size(width) + c;
              std::optional<float> sum;
              for (size_t k = 0; k < lists.size(); ++k) {
                if (lists[k] != row) continue;
                const auto one = static_cast<float>(given[k * to_size(width) + c]);
                sum = sum ? *sum + one : one;
              }
              float expected = static_cast<float>(before[at]);
              if (sum) {
                if (to != DType::kF32) sum = round_to(*sum, from);
                expected = round_to(write == Write::kAccumulate ? expected + *sum : *sum, to);
              }
              REQUIRE(static_cast<float>(got[at]) == expected);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("lists that do not fit are refused, in numbers", "[kernels]") {
  TestStream s;
  Tensor table = random_tensor({7, 4}, DType::kF32, 1, s.stream);
  Tensor values = random_tensor({3, 4}, DType::kF32, 1, s.stream);
  Tensor two = Tensor::empty({2}, DType::kI32, s.stream);
  CHECK_THROWS_WITH(distinct_tokens(s.stream, order_of({1, 2, 3}, s.stream), two),
                    Catch::Contains("more than 2 tokens that differ"));
  const Tensor outside = tokens_of({0, 7, kNoRow}, s.stream);
  CHECK_THROWS_AS(take_rows(s.stream, table, outside, values), DataError);
  CHECK_THROWS_WITH(sum_rows(s.stream, outside, values, 1, Write::kOverwrite, table),
                    Catch::Contains("row 7, expected 0 <= row < 7"));
  CHECK_THROWS_WITH(sum_rows(s.stream, outside, values, 2, Write::kOverwrite, table),
                    Catch::Contains("3 rows of 2 parts"));
  CHECK_THROWS_AS(take_rows(s.stream, table, two, values), InternalError);
}

}  // namespace
}  // namespace ds::kernels
