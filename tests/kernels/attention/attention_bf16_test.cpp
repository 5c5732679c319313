// Attention by the CPU's bf16 products beside that by fp32 products. The cases of
// attention_test.cpp run whichever of the two this machine prefers; here both are run wherever the
// CPU has the instruction.
#include <cmath>

#include "kernels/attention/attention_cpu.h"
#include "kernels/attention/attention_cpu_bf16.h"
#include "kernels/cpu/simd.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;

enum class Products { kBF16, kF32 };

struct Run {
  Tensor qkv, y, lse, dy, dqkv;
};

void execute(const AttentionSpec& spec, const Run& r, Stream& stream, Products products,
             const AttentionDropout& dropout) {
  const Tensor none;
  const detail::AttentionOperands forward =
      detail::operands_of(spec, r.qkv, r.y, r.lse, none, none, dropout);
  const detail::AttentionOperands backward =
      detail::operands_of(spec, r.qkv, r.y, r.lse, r.dy, r.dqkv, dropout);
  if (products == Products::kBF16) {
    detail::attention_forward_bf16(stream, forward);
    detail::attention_backward_bf16(stream, backward);
  } else {
    detail::attention_forward_fp32(stream, forward);
    detail::attention_backward_fp32(stream, backward);
  }
}

Run run(const AttentionSpec& spec, DType dtype, Stream& stream, Products products,
        const AttentionDropout& dropout = {}) {
  const AttentionShape& shape = spec.shape;
  const int64_t rows = shape.batch * shape.length;
  const auto bf16_values = [&](const Shape& of, uint64_t seed) {
    return tensor_of(values_of(random_tensor(of, DType::kBF16, seed, stream)), of, dtype, stream);
  };
  const Run r{.qkv = bf16_values({rows, shape.packed()}, 1),
              .y = Tensor::empty({rows, shape.heads * shape.head_dim}, dtype, stream),
              .lse = Tensor::empty({shape.batch, shape.heads, shape.length}, DType::kF32, stream),
              .dy = bf16_values({rows, shape.heads * shape.head_dim}, 2),
              .dqkv = Tensor::empty({rows, shape.packed()}, dtype, stream)};
  execute(spec, r, stream, products, dropout);
  return r;
}

int64_t draw(const Rng& rng, uint64_t index, int64_t low, int64_t high) {
  return low + rng.bits(index) % static_cast<uint32_t>(high - low + 1);
}

}  // namespace

TEST_CASE("attention by bf16 products follows that by fp32 products for any shape", "[kernels]") {
  if (!has_bf16_dots()) return;
  TestStream s(2);
  const Rng rng(9, "shapes");
  std::vector<AttentionShape> shapes{{1, 1, 1, 1, 1},    {1, 2, 1, 1, 2},   {1, 63, 1, 1, 31},
                                     {1, 65, 2, 1, 33},  {1, 64, 1, 1, 64}, {2, 128, 2, 2, 80},
                                     {1, 129, 3, 1, 96}, {1, 200, 8, 2, 64}};
  for (uint64_t i = 0; i < 24; ++i) {
    const int64_t kv_heads = draw(rng, 8 * i, 1, 3);
    shapes.push_back({draw(rng, 8 * i + 1, 1, 3), draw(rng, 8 * i + 2, 1, 150),
                      kv_heads * draw(rng, 8 * i + 3, 1, 3), kv_heads,
                      draw(rng, 8 * i + 4, 1, 140)});
  }
  const testing::PlacedInputs inputs(Rng(3, "drop"), 2, s.stream);
  for (const AttentionShape& shape : shapes) {
    for (const float p : {0.0F, 0.3F}) {
      CAPTURE(shape.batch, shape.length, shape.heads, shape.kv_heads, shape.head_dim, p);
      const AttentionDropout dropout{.p = p, .mask = inputs.mask()};
      const Run exact = run({shape}, DType::kF32, s.stream, Products::kF32, dropout);
      for (const Products products : {Products::kBF16, Products::kF32}) {
        CAPTURE(static_cast<int>(products));
        const Run r = run({shape}, DType::kBF16, s.stream, products, dropout);
        REQUIRE(error_of(r.y, values_of(exact.y)) < tolerance_of(DType::kBF16));
        REQUIRE(error_of(r.lse, values_of(exact.lse)) < 1e-5);
        REQUIRE(error_of(r.dqkv, values_of(exact.dqkv)) < 2 * tolerance_of(DType::kBF16));
      }
    }
  }
}

TEST_CASE("masks and scales are the same by bf16 products as by fp32 products", "[kernels]") {
  if (!has_bf16_dots()) return;
  TestStream s(2);
  const AttentionShape shape{2, 150, 4, 2, 40};
  std::vector<int32_t> rows;  // documents of 40 rows, and rows that see nothing
  for (int32_t row = 0; row < 300; ++row) {
    const int32_t begin = row % 150 / 40 * 40;
    rows.insert(rows.end(), {begin, begin == 80 ? begin : begin + 40});
  }
  const Tensor ranges = testing::upload(rows, {2, 150, 2}, s.stream);
  for (int32_t row = 0; row < 300; ++row) {  // a block of queries that sees nothing
    const auto at = static_cast<size_t>(2 * row);
    rows[at] = 0;
    rows[at + 1] = row % 150 / 64 == 1 ? 0 : 150;
  }
  const Tensor late = testing::upload(rows, {2, 150, 2}, s.stream);
  std::vector<uint8_t> cells(25, 1);
  cells[7] = cells[16] = cells[20] = 0;
  const Tensor layout = testing::upload(cells, {1, 5, 5}, s.stream);
  const std::vector<AttentionMask> masks{
      window_mask(1),
      window_mask(70),
      full_mask(),
      {.left = 3, .right = 90},
      {.ranges = ranges},
      {.ranges = late},
      {.right = kAnyDistance, .ranges = ranges},
      {.layout = layout, .block = 32},
      {.left = 50, .ranges = ranges, .layout = layout, .block = 32}};
  for (size_t i = 0; i < masks.size(); ++i) {
    for (const float scale : {0.0F, 0.4F}) {
      CAPTURE(i, scale);
      const AttentionSpec spec{.shape = shape, .mask = masks[i], .scale = scale};
      const Run exact = run(spec, DType::kF32, s.stream, Products::kF32);
      const Run r = run(spec, DType::kBF16, s.stream, Products::kBF16);
      REQUIRE(error_of(r.y, values_of(exact.y)) < 2 * tolerance_of(DType::kBF16));
      REQUIRE(error_of(r.dqkv, values_of(exact.dqkv)) < 3 * tolerance_of(DType::kBF16));
    }
  }
}

TEST_CASE("large scores keep their weights and log sums by bf16 products", "[kernels]") {
  if (!has_bf16_dots()) return;
  TestStream s;
  const AttentionShape shape{1, 150, 2, 1, 48};
  const int64_t width = shape.heads * shape.head_dim;
  const Tensor qkv = random_tensor({shape.length, shape.packed()}, DType::kBF16, 4, s.stream, 4.0);
  const Tensor y = Tensor::empty({shape.length, width}, DType::kBF16, s.stream);
  const Tensor lse = Tensor::empty({shape.heads, shape.length}, DType::kF32, s.stream);
  const Tensor none;
  const AttentionDropout keep_all;
  detail::attention_forward_bf16(s.stream,
                                 detail::operands_of({shape}, qkv, y, lse, none, none, keep_all));
  Values expected;
  REQUIRE(error_of(y, reference::attention({shape}, values_of(qkv), &expected)) <
          tolerance_of(DType::kBF16));
  REQUIRE(error_of(lse, expected) < 1e-6);
  REQUIRE(*std::ranges::max_element(expected) > 60);  // scores for which e^s needs its maximum
}

TEST_CASE("attention by bf16 products has equal bits however often keys are packed", "[kernels]") {
  if (!has_bf16_dots()) return;
  // One thread takes whole groups of query heads as items, four threads take single heads.
  const AttentionShape shape{4, 70, 3, 1, 20};
  TestStream one(1);
  TestStream four(4);
  const Run a = run({shape}, DType::kBF16, one.stream, Products::kBF16);
  const Run b = run({shape}, DType::kBF16, four.stream, Products::kBF16);
  REQUIRE(same_bits(a.y, b.y));
  REQUIRE(same_bits(a.lse, b.lse));
  REQUIRE(same_bits(a.dqkv, b.dqkv));
}

TEST_CASE("attention by bf16 products writes nothing beside its results", "[kernels]") {
  if (!has_bf16_dots()) return;
  TestStream s;
  constexpr int64_t kBeside = 70;
  const AttentionShape shape{1, 67, 2, 1, 37};
  const Run plain = run({shape}, DType::kBF16, s.stream, Products::kBF16);
  const auto framed = [&](const Tensor& like) {
    return tensor_of(Values(static_cast<size_t>(like.numel() + 2 * kBeside), 7.0),
                     {like.numel() + 2 * kBeside}, like.dtype(), s.stream);
  };
  const Tensor y = framed(plain.y), lse = framed(plain.lse), dqkv = framed(plain.dqkv);
  const Run inside{.qkv = plain.qkv,
                   .y = y.narrow(kBeside, plain.y.numel()),
                   .lse = lse.narrow(kBeside, plain.lse.numel()),
                   .dy = plain.dy,
                   .dqkv = dqkv.narrow(kBeside, plain.dqkv.numel())};
  execute({shape}, inside, s.stream, Products::kBF16, {});
  REQUIRE(values_of(inside.y) == values_of(plain.y));
  REQUIRE(values_of(inside.lse) == values_of(plain.lse));
  REQUIRE(values_of(inside.dqkv) == values_of(plain.dqkv));
  for (const Tensor& whole : {y, lse, dqkv}) {
    const Values sevens(kBeside, 7.0);
    REQUIRE(values_of(whole.narrow(0, kBeside)) == sevens);
    REQUIRE(values_of(whole.narrow(whole.numel() - kBeside, kBeside)) == sevens);
  }
}

TEST_CASE("a number that is none reaches the results of bf16 products", "[kernels]") {
  if (!has_bf16_dots()) return;
  TestStream s;
  const AttentionShape shape{1, 70, 1, 1, 16};
  const Run r = run({shape}, DType::kBF16, s.stream, Products::kBF16);
  for (const int64_t part : {0, 1, 2}) {  // query, key and value of position 66
    CAPTURE(part);
    Values values = values_of(r.qkv);
    values[static_cast<size_t>(66 * shape.packed() + part * 16 + 5)] = std::nan("");
    Run poisoned = r;
    poisoned.qkv = tensor_of(values, r.qkv.shape(), DType::kBF16, s.stream);
    execute({shape}, poisoned, s.stream, Products::kBF16, {});
    REQUIRE(std::isnan(values_of(poisoned.y)[size_t{66} * 16 + 5]));
    const Values gradient = values_of(poisoned.dqkv);
    REQUIRE(std::ranges::any_of(gradient, [](double v) { return std::isnan(v); }));
  }
}

TEST_CASE("bf16 products are refused where they cannot be", "[kernels]") {
  TestStream s;
  const AttentionShape shape{1, 3, 1, 1, 4};
  const Run r = run({shape}, DType::kF32, s.stream, Products::kF32);
  const AttentionDropout keep_all;
  const detail::AttentionOperands operands =
      detail::operands_of({shape}, r.qkv, r.y, r.lse, r.dy, r.dqkv, keep_all);
  const auto message = has_bf16_dots() ? Catch::Contains("products of bf16 of fp32 operands")
                                       : Catch::Contains("need AVX512-BF16");
  REQUIRE_THROWS_WITH(detail::attention_forward_bf16(s.stream, operands), message);
  REQUIRE_THROWS_WITH(detail::attention_backward_bf16(s.stream, operands), message);
  if (prefers_bf16_dots()) REQUIRE(has_bf16_dots());
  if (!has_bf16_dots()) return;
  const Run half = run({shape}, DType::kBF16, s.stream, Products::kF32);
  const AttentionSpec capped{.shape = shape, .softcap = 2};
  REQUIRE_THROWS_WITH(detail::attention_forward_bf16(
                          s.stream, detail::operands_of(capped, half.qkv, half.y, half.lse, half.dy,
                                                        half.dqkv, keep_all)),
                      Catch::Contains("products of bf16 cap no scores"));
}

}  // namespace ds::kernels
