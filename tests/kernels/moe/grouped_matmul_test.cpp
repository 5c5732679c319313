// Products by expert against the fp64 reference.
#include "kernels/moe/grouped_matmul.h"

#include "core/device/device_flags.h"
#include "tests/kernels/moe/moe_reference.h"
#include "tests/support/catch.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct Case {
  Ints counts;     // rows of each expert
  int64_t behind;  // rows of nobody
  int64_t depth, columns;
};

Ints offsets_of(const Ints& counts) {
  Ints offsets{0};
  for (const int32_t count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

// E of 1, 2, 8, 64 and 257; starved experts, all rows to one, one row, none; extents around packs
// and tiles.
std::vector<Case> cases() {
  Ints few(64, 0), many(257, 0);
  few[3] = 20;
  few[63] = 1;
  for (size_t e = 0; e < many.size(); e += 7) many[e] = static_cast<int32_t>(e % 5);
  return {{{5}, 0, 8, 8},
          {{0}, 0, 8, 16},
          {{1}, 0, 1, 1},
          {{1, 1}, 1, 33, 64},
          {{0, 70}, 2, 40, 65},
          {{64, 0, 65, 3, 0, 0, 1, 130}, 3, 72, 136},
          {{0, 0, 0, 90, 0, 0, 0, 0}, 0, 64, 48},
          {{3, 9, 2, 0, 1, 7, 0, 4}, 5, 31, 17},
          {few, 0, 16, 24},
          {many, 4, 12, 8}};
}

int64_t rows_of(const Case& one) { return offsets_of(one.counts).back() + one.behind; }

Values part(const Values& all, int64_t first, int64_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

Values expected_rows(const Case& one, const Values& rows, const Values& weights, bool transposed) {
  const Ints offsets = offsets_of(one.counts);
  const int64_t size = one.depth * one.columns;
  Values out;
  for (size_t e = 0; e < one.counts.size(); ++e) {
    const Values y = matmul(part(rows, offsets[e] * one.depth, one.counts[e] * one.depth),
                            part(weights, static_cast<int64_t>(e) * size, size), one.counts[e],
                            one.columns, one.depth, false, transposed);
    out.insert(out.end(), y.begin(), y.end());
  }
  out.resize(out.size() + static_cast<size_t>(one.behind * one.columns), 0.0);
  return out;
}

Values expected_weights(const Case& one, const Values& a, const Values& b) {
  const Ints offsets = offsets_of(one.counts);
  Values out;
  for (size_t e = 0; e < one.counts.size(); ++e) {
    const Values d = matmul(part(a, offsets[e] * one.depth, one.counts[e] * one.depth),
                            part(b, offsets[e] * one.columns, one.counts[e] * one.columns),
                            one.depth, one.columns, one.counts[e], true, false);
    out.insert(out.end(), d.begin(), d.end());
  }
  return out;
}

std::string name_of_case(const Case& one) {
  return fmt::format("{} experts, {} rows, {} behind, depth {}, columns {}", one.counts.size(),
                     offsets_of(one.counts).back(), one.behind, one.depth, one.columns);
}

// Results of three tf32 products on a device have 22 bits.
double tolerance(DType dtype) {
  return dtype == DType::kF32 && testing::is_on_device() ? 1e-5 : tolerance_of(dtype);
}

TEST_CASE("rows are multiplied with the matrix of their expert", "[kernels][moe][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const Case& one : cases()) {
      const auto experts = static_cast<int64_t>(one.counts.size());
      const Tensor rows = random_tensor({rows_of(one), one.depth}, dtype, 1, s.stream);
      const Tensor weights =
          random_tensor({experts, one.depth, one.columns}, dtype, 2, s.stream, 0.5);
      const Tensor offsets = ints(offsets_of(one.counts), s.stream);
      for (const Transpose transpose : {Transpose::kNo, Transpose::kYes}) {
        const Values expected =
            expected_rows(one, values_of(rows), values_of(weights), transpose == Transpose::kYes);
        for (const DType to : {dtype, DType::kF32}) {
          INFO(name_of(dtype) << " to " << name_of(to) << " " << name_of_case(one));
          const Tensor out = random_tensor({rows_of(one), one.columns}, to, 3, s.stream);
          grouped_matmul(s.stream, {.rows = rows,
                                    .weights = weights,
                                    .offsets = offsets,
                                    .depth = one.depth,
                                    .transpose_weights = transpose,
                                    .out = out});
          REQUIRE(error_of(out, expected) < tolerance(to));
        }
      }
    }
  }
}

TEST_CASE("gradients of the matrices of experts are sums over their rows",
          "[kernels][moe][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (const Case& one : cases()) {
      const auto experts = static_cast<int64_t>(one.counts.size());
      const Tensor a = random_tensor({rows_of(one), one.depth}, dtype, 1, s.stream);
      const Tensor b = random_tensor({rows_of(one), one.columns}, dtype, 2, s.stream);
      GroupedMatmulWeightsArgs args{.a = a,
                                    .b = b,
                                    .offsets = ints(offsets_of(one.counts), s.stream),
                                    .out = {},
                                    .a_columns = one.depth,
                                    .b_columns = one.columns};
      const Values sums = expected_weights(one, values_of(a), values_of(b));
      for (const DType to : {dtype, DType::kF32}) {
        INFO(name_of(dtype) << " to " << name_of(to) << " " << name_of_case(one));
        args.out = random_tensor({experts, one.depth, one.columns}, to, 3, s.stream);
        const Values before = values_of(args.out);
        args.write = Write::kAccumulate;
        grouped_matmul_weights(s.stream, args);
        Values expected = sums;
        for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
        REQUIRE(error_of(args.out, expected) < 2 * tolerance(to));
        args.write = Write::kOverwrite;
        grouped_matmul_weights(s.stream, args);
        REQUIRE(error_of(args.out, sums) < tolerance(to));
        // An expert without rows has zeros, not what was there.
        const Values got = values_of(args.out);
        for (size_t i = 0; i < got.size(); ++i) {
          const size_t expert = i / static_cast<size_t>(one.depth * one.columns);
          if (one.counts[expert] == 0) REQUIRE(got[i] == 0);
        }
      }
    }
  }
}

// More rows and columns than a block has.
TEST_CASE("large experts are made of blocks", "[kernels][moe]") {
  const Case one{{300, 0, 1, 700}, 7, 40, 500};
  for (const DType dtype : float_dtypes()) {
    INFO(name_of(dtype));
    TestStream s;
    const Tensor rows = random_tensor({1008, 40}, dtype, 1, s.stream);
    const Tensor weights = random_tensor({4, 40, 500}, dtype, 2, s.stream);
    const Tensor wide = random_tensor({1008, 500}, dtype, 3, s.stream);
    const Tensor out = random_tensor({1008, 500}, dtype, 4, s.stream);
    const Tensor offsets = ints(offsets_of(one.counts), s.stream);
    for (const Transpose transpose : {Transpose::kNo, Transpose::kYes}) {
      grouped_matmul(s.stream, {.rows = rows,
                                .weights = weights,
                                .offsets = offsets,
                                .depth = 40,
                                .transpose_weights = transpose,
                                .out = out});
      CHECK(error_of(out, expected_rows(one, values_of(rows), values_of(weights),
                                        transpose == Transpose::kYes)) < tolerance_of(dtype));
    }
    const Tensor sums = random_tensor({4, 40, 500}, dtype, 4, s.stream);
    grouped_matmul_weights(
        s.stream,
        {.a = rows, .b = wide, .offsets = offsets, .out = sums, .a_columns = 40, .b_columns = 500});
    CHECK(error_of(sums, expected_weights(one, values_of(rows), values_of(wide))) <
          tolerance_of(dtype));
  }
}

TEST_CASE("products by expert have the same bits for any number of threads, whoever else has rows",
          "[kernels][moe]") {
  for (const DType dtype : float_dtypes()) {
    std::vector<std::byte> first_rows, first_sums;
    for (const int threads : {1, 2, 4}) {
      for (const Ints& counts : {Ints{300, 1, 90}, Ints{300, 40, 90}, Ints{300, 0, 90}}) {
        TestStream s(threads);
        const Ints offsets = offsets_of(counts);
        const Tensor at = ints(offsets, s.stream);
        const int64_t rows = offsets.back();
        // The rows of the first expert are the same in all.
        const Tensor x = random_tensor({rows, 96}, dtype, 1, s.stream);
        const Tensor w = random_tensor({3, 96, 400}, dtype, 2, s.stream);
        const Tensor out = Tensor::empty({rows, 400}, dtype, s.stream);
        grouped_matmul(s.stream, {.rows = x, .weights = w, .offsets = at, .depth = 96, .out = out});
        const Tensor sums = Tensor::empty({3, 96, 96}, DType::kF32, s.stream);
        grouped_matmul_weights(
            s.stream,
            {.a = x, .b = x, .offsets = at, .out = sums, .a_columns = 96, .b_columns = 96});
        const std::vector<std::byte> own = bytes_of(out.narrow(0, 120000));
        const std::vector<std::byte> own_sums = bytes_of(sums.narrow(0, 9216));
        if (first_rows.empty()) {
          first_rows = own;
          first_sums = own_sums;
        }
        CHECK(own == first_rows);
        CHECK(own_sums == first_sums);
      }
    }
  }
}

TEST_CASE("operands of products by expert begin at any element", "[kernels][moe][device]") {
  TestStream s;
  const Case one{{9, 3}, 0, 16, 24};
  const Tensor rows = random_tensor({12 * 16 + 1}, DType::kBF16, 1, s.stream).narrow(1, 192);
  const Tensor weights = random_tensor({2, 16, 24}, DType::kBF16, 2, s.stream);
  const Tensor all = Tensor::zeros({12 * 24 + 1}, DType::kBF16, s.stream);
  const Tensor out = all.narrow(1, 288);
  grouped_matmul(s.stream, {.rows = rows,
                            .weights = weights,
                            .offsets = ints(offsets_of(one.counts), s.stream),
                            .depth = 16,
                            .out = out});
  CHECK(error_of(out, expected_rows(one, values_of(rows), values_of(weights), false)) <
        tolerance_of(DType::kBF16));
  CHECK(values_of(all)[0] == 0);
}

TEST_CASE("offsets beyond the rows are found", "[kernels][moe][device]") {
  TestStream s;
  const Tensor x = random_tensor({4, 8}, DType::kF32, 1, s.stream);
  const Tensor w = random_tensor({2, 8, 8}, DType::kF32, 2, s.stream);
  const Tensor out = random_tensor({4, 8}, DType::kF32, 3, s.stream);
  for (const Ints& offsets : {Ints{0, 2, 5}, Ints{0, 3, 2}, Ints{-1, 2, 4}}) {
    const auto multiply = [&] {
      const Tensor at = ints(offsets, s.stream);
      grouped_matmul(s.stream, {.rows = x, .weights = w, .offsets = at, .depth = 8, .out = out});
      DeviceFlags(s.stream).wait_and_check("product");
    };
    const auto sum = [&] {
      const Tensor at = ints(offsets, s.stream);
      grouped_matmul_weights(
          s.stream, {.a = x, .b = x, .offsets = at, .out = w, .a_columns = 8, .b_columns = 8});
      DeviceFlags(s.stream).wait_and_check("product");
    };
    const auto* const found =
        testing::is_on_device() ? "a place outside of the rows" : " has rows ";
    CHECK_THROWS_WITH(multiply(), Catch::Contains(found));
    CHECK_THROWS_WITH(sum(), Catch::Contains(found));
  }
}

TEST_CASE("products by expert refuse operands that do not fit", "[kernels][moe]") {
  TestStream s;
  const Tensor x = random_tensor({4, 8}, DType::kBF16, 1, s.stream);
  GroupedMatmulArgs args{.rows = x,
                         .weights = random_tensor({2, 8, 6}, DType::kBF16, 2, s.stream),
                         .offsets = ints({0, 4}, s.stream),
                         .depth = 7,
                         .out = random_tensor({4, 6}, DType::kF32, 3, s.stream)};
  const auto multiply = [&] { grouped_matmul(s.stream, args); };
  CHECK_THROWS_WITH(multiply(), Catch::Contains("rows has shape [4, 8], expected rows of 7"));
  args.depth = 8;
  CHECK_THROWS_WITH(multiply(), Catch::Contains("out has shape [4, 6] (24 elements), expected 48"));
  args.offsets = ints({0, 1, 4}, s.stream);
  CHECK_NOTHROW(multiply());
  args.out = random_tensor({4, 6}, DType::kF16, 3, s.stream);
  CHECK_THROWS_WITH(multiply(), Catch::Contains("out is fp16, expected fp32 or bf16"));
  args.weights = random_tensor({2, 8, 6}, DType::kF32, 3, s.stream);
  CHECK_THROWS_WITH(multiply(), Catch::Contains("weights is fp32, expected bf16"));
  args.offsets = ints({0}, s.stream);
  CHECK_THROWS_WITH(multiply(), Catch::Contains("grouped_matmul: offsets of no expert"));
  GroupedMatmulWeightsArgs sums{.a = x,
                                .b = x,
                                .offsets = ints({0, 4}, s.stream),
                                .out = random_tensor({8, 8}, DType::kF32, 3, s.stream),
                                .a_columns = 8,
                                .b_columns = 0};
  const auto sum = [&] { grouped_matmul_weights(s.stream, sums); };
  CHECK_THROWS_WITH(sum(), Catch::Contains("b has 0 columns"));
  sums.b_columns = 4;
  CHECK_THROWS_WITH(sum(), Catch::Contains("b has shape [4, 8] (32 elements), expected 16"));
  sums.b_columns = 8;
  CHECK_NOTHROW(sum());
  sums.b = random_tensor({4, 8}, DType::kF32, 3, s.stream);
  CHECK_THROWS_WITH(sum(), Catch::Contains("b is fp32, expected bf16"));
}

}  // namespace
}  // namespace ds::kernels
