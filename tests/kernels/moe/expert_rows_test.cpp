// Rows to experts and back against plain loops.
#include "kernels/moe/expert_rows.h"

#include "core/device/device_flags.h"
#include "tests/kernels/moe/moe_reference.h"
#include "tests/support/catch.h"

namespace ds::kernels {
namespace {

using namespace reference;

// Choices of tokens, some of them dropped, in the order of their experts.
struct Routed {
  int64_t tokens, choices, columns;
  SortedChoices sorted;
  int64_t used = 0;  // rows
};
Routed routed(int64_t tokens, int64_t choices, int64_t columns) {
  Routed of{.tokens = tokens,
            .choices = choices,
            .columns = columns,
            .sorted = sorted_choices(random_experts(tokens * choices, 5, 6, 3), choices, 5,
                                     ChoiceOrder::kByToken)};
  of.used = of.sorted.offsets.back();
  return of;
}

Values rows_there(const Routed& of, const Values& x, const Values& weights, int64_t rows) {
  Values expected;
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t choice = of.sorted.order[static_cast<size_t>(i)];
    for (int64_t c = 0; c < of.columns; ++c) {
      const int64_t at = choice < 0 ? 0 : choice / of.choices * of.columns + c;
      const double weight = choice < 0        ? 0
                            : weights.empty() ? 1
                                              : weights[static_cast<size_t>(choice)];
      expected.push_back(choice < 0 ? 0 : weight * x[static_cast<size_t>(at)]);
    }
  }
  return expected;
}

Values rows_back(const Routed& of, const Values& rows, const Values& weights) {
  Values expected(static_cast<size_t>(of.tokens * of.columns), 0.0);
  for (int64_t i = 0; i < of.tokens * of.choices; ++i) {
    const auto choice = static_cast<size_t>(i);
    const int64_t place = of.sorted.place[choice];
    if (place < 0) continue;
    for (int64_t c = 0; c < of.columns; ++c) {
      expected[static_cast<size_t>(i / of.choices * of.columns + c)] +=
          (weights.empty() ? 1 : weights[choice]) *
          rows[static_cast<size_t>(place * of.columns + c)];
    }
  }
  return expected;
}

Values dots(const Routed& of, const Values& dy, const Values& rows) {
  Values expected;
  for (int64_t i = 0; i < of.tokens * of.choices; ++i) {
    const int64_t place = of.sorted.place[static_cast<size_t>(i)];
    expected.push_back(
        place < 0 ? 0
                  : dot(row_of(dy, i / of.choices, of.columns), row_of(rows, place, of.columns)));
  }
  return expected;
}

struct Operands {
  Tensor order, place, weights, x, rows;
};
Operands operands_of(Stream& stream, const Routed& of, DType dtype, int64_t rows) {
  Ints order = of.sorted.order;
  order.resize(static_cast<size_t>(rows));
  return {.order = ints(order, stream),
          .place = ints(of.sorted.place, stream),
          .weights = random_tensor({of.tokens, of.choices}, DType::kF32, 5, stream),
          .x = random_tensor({of.tokens, of.columns}, dtype, 6, stream),
          .rows = random_tensor({rows, of.columns}, dtype, 7, stream)};
}

void check_rows(Stream& stream, const Routed& of, DType dtype, int64_t rows) {
  INFO(name_of(dtype) << " " << of.tokens << " tokens, k " << of.choices << ", " << of.columns
                      << " columns, " << rows << " rows");
  const Operands given = operands_of(stream, of, dtype, rows);
  const RowsOfTokens shape{.choices = of.choices, .columns = of.columns};
  const Values x = values_of(given.x), weights = values_of(given.weights);
  Tensor there = random_tensor({rows, of.columns}, dtype, 8, stream);
  gather_expert_rows(stream, {.shape = shape, .x = given.x, .order = given.order, .rows = there});
  REQUIRE(values_of(there) == rows_there(of, x, {}, rows));
  gather_expert_rows(stream, {.shape = shape,
                              .x = given.x,
                              .order = given.order,
                              .weights = given.weights,
                              .rows = there});
  REQUIRE(error_of(there, rows_there(of, x, weights, rows)) < tolerance_of(dtype));
  const Tensor y = random_tensor({of.tokens, of.columns}, dtype, 9, stream);
  RowsBack back{.shape = shape, .rows = given.rows, .place = given.place, .y = y};
  const Values from = values_of(given.rows);
  return_expert_rows(stream, back);
  REQUIRE(error_of(y, rows_back(of, from, {})) < tolerance_of(dtype));
  back.weights = given.weights;
  return_expert_rows(stream, back);
  REQUIRE(error_of(y, rows_back(of, from, weights)) < tolerance_of(dtype));
  back.y = given.x;
  back.weights = Tensor::empty({of.tokens, of.choices}, DType::kF32, stream);
  expert_row_dots(stream, back);
  REQUIRE(error_of(back.weights, dots(of, x, from)) < 3e-6);
}

TEST_CASE("rows go to their experts and come back weighed", "[kernels][moe][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const int64_t columns : {1, 7, 64, 200}) {
      for (const int64_t choices : {1, 2, 6}) {
        for (const int64_t tokens : {0, 1, 37}) {
          const Routed of = routed(tokens, choices, columns);
          check_rows(s.stream, of, dtype, tokens * choices);
          check_rows(s.stream, of, dtype, of.used);  // the bound that just holds all
        }
      }
    }
  }
}

TEST_CASE("rows begin at any element", "[kernels][moe][device]") {
  TestStream s;
  const Routed of = routed(9, 2, 16);
  const Operands given = operands_of(s.stream, of, DType::kBF16, of.used);
  const Tensor x = random_tensor({9 * 16 + 3}, DType::kBF16, 6, s.stream).narrow(3, 144);
  const Tensor rows = Tensor::zeros({of.used * 16 + 1}, DType::kBF16, s.stream);
  const Tensor to = rows.narrow(1, of.used * 16);
  gather_expert_rows(
      s.stream, {.shape = {.choices = 2, .columns = 16}, .x = x, .order = given.order, .rows = to});
  CHECK(values_of(to) == rows_there(of, values_of(x), {}, of.used));
  CHECK(values_of(rows)[0] == 0);
}

TEST_CASE("the way back has the same bits for any number of threads", "[kernels][moe]") {
  const Routed of = routed(301, 4, 48);
  std::vector<std::vector<std::byte>> bits;
  for (const int threads : {1, 2, 4}) {
    TestStream s(threads);
    const Operands given = operands_of(s.stream, of, DType::kF32, of.used);
    const Tensor y = Tensor::empty({301, 48}, DType::kF32, s.stream);
    return_expert_rows(s.stream, {.shape = {.choices = 4, .columns = 48},
                                  .rows = given.rows,
                                  .place = given.place,
                                  .weights = given.weights,
                                  .y = y});
    bits.push_back(bytes_of(y));
  }
  CHECK(bits[0] == bits[1]);
  CHECK(bits[0] == bits[2]);
}

TEST_CASE("a place that is not among the rows is found, and adds nothing",
          "[kernels][moe][device]") {
  TestStream s;
  const RowsOfTokens shape{.choices = 2, .columns = 2};
  const Tensor rows = tensor_of({1, 2, 3, 4}, {2, 2}, DType::kF32, s.stream);
  const Tensor y = Tensor::zeros({1, 2}, DType::kF32, s.stream);
  const auto back = [&] {
    return_expert_rows(s.stream,
                       {.shape = shape, .rows = rows, .place = ints({1, 2}, s.stream), .y = y});
    DeviceFlags(s.stream).wait_and_check("rows");
  };
  const auto there = [&] {
    gather_expert_rows(s.stream,
                       {.shape = shape, .x = y, .order = ints({0, 2}, s.stream), .rows = rows});
    DeviceFlags(s.stream).wait_and_check("rows");
  };
  if (testing::is_on_device()) {
    CHECK_THROWS_WITH(back(), Catch::Contains("a place outside of the rows of experts"));
    CHECK(values_of(y) == Values{3, 4});
    CHECK_THROWS_WITH(there(), Catch::Contains("a place outside of the rows of experts"));
    CHECK(values_of(rows) == Values{3, 4, 0, 0});
  } else {
    CHECK_THROWS_WITH(back(), Catch::Contains("entry 1 is place 2, expected -1 to 1"));
    CHECK_THROWS_WITH(there(), Catch::Contains("entry 1 is choice 2, expected -1 to 1"));
  }
}

TEST_CASE("rows of experts refuse operands that do not fit", "[kernels][moe]") {
  TestStream s;
  const RowsOfTokens shape{.choices = 2, .columns = 4};
  const Tensor x = random_tensor({3, 4}, DType::kBF16, 1, s.stream);
  const Tensor rows = random_tensor({6, 4}, DType::kBF16, 2, s.stream);
  RowsThere there{.shape = shape, .x = x, .order = room_for_ints(5, s.stream), .rows = rows};
  const auto gather = [&] { gather_expert_rows(s.stream, there); };
  CHECK_THROWS_WITH(gather(), Catch::Contains("gather_expert_rows: order has shape [5]"));
  there.order = ints(Ints(6, 0), s.stream);
  CHECK_NOTHROW(gather());
  there.weights = Tensor::empty({5}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(gather(), Catch::Contains("weights has shape [5] (5 elements), expected 6"));
  there.weights = {};
  there.rows = Tensor::empty({6, 4}, DType::kF16, s.stream);
  CHECK_THROWS_WITH(gather(), Catch::Contains("rows is fp16, expected bf16"));
  there.shape.columns = 0;
  CHECK_THROWS_WITH(gather(), Catch::Contains("2 choices, rows of 0"));
  RowsBack back{.shape = shape, .rows = rows, .place = ints(Ints(6, 0), s.stream), .y = x};
  CHECK_THROWS_WITH(expert_row_dots(s.stream, back), Catch::Contains("weights are undefined"));
  back.place = room_for_ints(4, s.stream);
  CHECK_THROWS_WITH(return_expert_rows(s.stream, back),
                    Catch::Contains("return_expert_rows: place has shape [4]"));
  back.y = Tensor::empty({3, 4}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(return_expert_rows(s.stream, back),
                    Catch::Contains("y is fp32, expected bf16"));
}

}  // namespace
}  // namespace ds::kernels
