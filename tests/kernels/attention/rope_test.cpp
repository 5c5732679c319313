// Rotary positions of a share of a head, of neighbouring pairs, by a factor, and of rows that say
// their own, against a loop in fp64.
#include "kernels/rotary/rope.h"

#include <cmath>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

// Queries and keys of a row, whose position is told.
Values turned(const AttentionShape& s, const RotaryTable& table,
              const std::vector<int32_t>& positions, double sign, Values x) {
  const auto pairs = static_cast<int64_t>(table.frequencies.size());
  for (int64_t row = 0; row < s.batch * s.length; ++row) {
    for (int64_t head = 0; head < s.heads + s.kv_heads; ++head) {
      for (int64_t j = 0; j < pairs; ++j) {
        const int64_t first = row * s.packed() + head * s.head_dim;
        const bool near = table.pairs_neighbours;
        double& a = x[static_cast<size_t>(first + (near ? 2 * j : j))];
        double& b = x[static_cast<size_t>(first + (near ? 2 * j + 1 : j + pairs))];
        const double angle = positions[static_cast<size_t>(row)] *
                             static_cast<double>(table.frequencies[static_cast<size_t>(j)]);
        const double cosine = table.factor * std::cos(angle), sine = table.factor * std::sin(angle);
        const double before = a;
        a = before * cosine - b * sign * sine;
        b = b * cosine + before * sign * sine;
      }
    }
  }
  return x;
}

std::vector<int32_t> counted(const AttentionShape& s, int64_t first) {
  std::vector<int32_t> out;
  for (int64_t row = 0; row < s.batch * s.length; ++row) {
    out.push_back(static_cast<int32_t>(first + row % s.length));
  }
  return out;
}

}  // namespace

TEST_CASE("rope turns a share of a head, neighbours or halves, by a factor", "[kernels][device]") {
  TestStream s;
  for (const int64_t head_dim : {8, 24, 64}) {
    const AttentionShape shape{2, 5, 3, 1, head_dim};
    for (const bool neighbours : {false, true}) {
      for (const int64_t width : {int64_t{2}, head_dim / 2, head_dim}) {
        for (const DType dtype : float_dtypes()) {
          CAPTURE(head_dim, width, neighbours, name_of(dtype));
          RotaryTable table = rotary(1e4, width);
          table.factor = 1.25F;
          table.pairs_neighbours = neighbours;
          Tensor qkv = random_tensor({10, shape.packed()}, dtype, 1, s.stream);
          const Values x = values_of(qkv);
          rope(s.stream, shape, table, {7}, Rotation::kForward, qkv);
          REQUIRE(error_of(qkv, turned(shape, table, counted(shape, 7), 1, x)) <
                  2 * tolerance_of(dtype));
          Tensor back = tensor_of(x, qkv.shape(), dtype, s.stream);
          rope(s.stream, shape, table, {7}, Rotation::kInverse, back);
          REQUIRE(error_of(back, turned(shape, table, counted(shape, 7), -1, x)) <
                  2 * tolerance_of(dtype));
        }
      }
    }
  }
}

TEST_CASE("rows may say their own positions", "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{2, 5, 2, 1, 16};
  const RotaryTable table = rotary(1e4, 16);
  const std::vector<int32_t> positions{0, 1, 2, 0, 1, 9, 0, 0, 100, 3};
  const Tensor rows = testing::upload(positions, {2, 5}, s.stream);
  for (const DType dtype : float_dtypes()) {
    Tensor qkv = random_tensor({10, shape.packed()}, dtype, 1, s.stream);
    const Values x = values_of(qkv);
    rope(s.stream, shape, table, {.rows = rows}, Rotation::kForward, qkv);
    REQUIRE(error_of(qkv, turned(shape, table, positions, 1, x)) < 2 * tolerance_of(dtype));
    // If they are those that are counted, they have the same bits.
    Tensor told = tensor_of(x, qkv.shape(), dtype, s.stream);
    Tensor by_count = tensor_of(x, qkv.shape(), dtype, s.stream);
    rope(s.stream, shape, table, {.rows = testing::upload(counted(shape, 0), {10}, s.stream)},
         Rotation::kForward, told);
    rope(s.stream, shape, table, {}, Rotation::kForward, by_count);
    REQUIRE(same_bits(told, by_count));
  }
}

TEST_CASE("a row in front of the first position is refused", "[kernels]") {
  TestStream s;
  const AttentionShape shape{1, 2, 1, 1, 4};
  Tensor qkv = Tensor::zeros({2, shape.packed()}, DType::kF32, s.stream);
  const Tensor rows = testing::upload(std::vector<int32_t>{3, -1}, {2}, s.stream);
  if (testing::is_on_device()) return;  // which looks at no number of its kernels
  REQUIRE_THROWS_WITH(
      rope(s.stream, shape, rotary(1e4, 4), {.rows = rows}, Rotation::kForward, qkv),
      Catch::Contains("a row has position -1"));
}

TEST_CASE("tables of other models are not taken for each other's", "[kernels]") {
  TestStream s;
  const AttentionShape shape{1, 3, 1, 1, 8};
  RotaryTable table = rotary(1e4, 8);
  const Tensor x = random_tensor({3, 24}, DType::kF32, 1, s.stream);
  for (int round = 0; round < 6; ++round) {
    if (round % 2 == 1) table.factor = 2;
    if (round == 2) table = rotary(5e5, 8);
    if (round == 4) table = rotary(1e4, 4);
    Tensor qkv = testing::upload(x, s.stream);
    rope(s.stream, shape, table, {}, Rotation::kForward, qkv);
    REQUIRE(error_of(qkv, turned(shape, table, counted(shape, 0), 1, values_of(x))) < 1e-6);
  }
}

TEST_CASE("more pairs than a GPU's kernel is given are refused by name", "[kernels][device]") {
  TestStream s;
  if (s.stream.device().kind != Device::Kind::kCuda) return;
  const AttentionShape shape{1, 1, 1, 1, 1026};
  Tensor qkv = Tensor::zeros({1, shape.packed()}, DType::kF32, s.stream);
  REQUIRE_THROWS_AS(rope(s.stream, shape, rotary(1e4, 1026), {}, Rotation::kForward, qkv),
                    Unsupported);
}

}  // namespace ds::kernels
