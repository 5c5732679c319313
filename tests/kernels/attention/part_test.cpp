// Parts of attention, put together again: the whole's outputs, sums and gradients, as the CPU makes
// them, whatever the parts and the order in which keys come.
#include <utility>
#include <vector>

#include "core/status/error.h"
#include "kernels/attention/attention_part.h"
#include "tests/kernels/attention/attention_run.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/reference.h"
#include "tests/support/test_stream.h"

namespace ds::kernels {
namespace {

using namespace reference;

// The columns [first, first + width) of every row.
Tensor columns_of(const Tensor& rows, int64_t first, int64_t width, Stream& stream) {
  Tensor out = Tensor::empty({rows.shape()[0], width}, rows.dtype(), stream);
  const size_t bytes = static_cast<size_t>(width) * size_of(rows.dtype());
  for (int64_t row = 0; row < rows.shape()[0]; ++row) {
    const int64_t at = row * rows.shape()[1] + first;
    stream.copy(rows.narrow(at, width).address(), out.narrow(row * width, width).address(), bytes);
  }
  return out;
}

// Sequences in pieces that begin at `cuts`: every piece of queries over its own keys, then over
// those of the pieces before, the nearest first, and over those behind it.
std::vector<AttentionPart> parts_of(const AttentionSpec& spec, const std::vector<int64_t>& cuts) {
  const AttentionShape& s = spec.shape;
  std::vector<AttentionPart> parts;
  const auto piece = [&](size_t i) {
    const int64_t end = i + 1 < cuts.size() ? cuts[i + 1] : s.length;
    return SequencePart{
        .length = s.length, .first = cuts[i], .count = end - cuts[i], .position = cuts[i]};
  };
  for (size_t q = 0; q < cuts.size(); ++q) {
    for (size_t back = 0; back <= q; ++back) {
      const AttentionPart part = part_of(spec, piece(q), piece(q - back));
      if (sees_anything(part)) parts.push_back(part);
    }
    for (size_t k = q + 1; k < cuts.size(); ++k) {
      const AttentionPart part = part_of(spec, piece(q), piece(k));
      if (sees_anything(part)) parts.push_back(part);
    }
  }
  return parts;
}

struct Cuts {
  AttentionShape shape;
  std::vector<int64_t> at;
};

// On a device around the rows that a block of threads owns and those that pass by, of which there
// are fewer of wide heads; the emulated one is given few.
std::vector<Cuts> all_cuts() {
  if (testing::is_on_device()) {
    return {{{1, 8, 1, 1, 4}, {0, 4}},
            {{2, 35, 4, 2, 20}, {0, 1, 18}},
            {{1, 98, 2, 1, 40}, {0, 70}},
            {{1, 19, 2, 1, 136}, {0, 2}}};
  }
  return {{{1, 8, 1, 1, 4}, {0, 4}},
          {{2, 130, 4, 2, 20}, {0, 1, 65, 100}},
          {{2, 200, 6, 2, 16}, {0, 70}},
          {{1, 256, 2, 2, 64}, {0, 64, 128, 192}}};
}

// slack: of gradients, in which the whole rounds weights that the parts do not.
void check_parts(const AttentionSpec& spec, const std::vector<int64_t>& cuts, DType dtype,
                 Stream& stream, double slack = 2) {
  testing::CpuStream cpu;
  const AttentionShape& shape = spec.shape;
  INFO(name_of(dtype) << " T " << shape.length << " H " << shape.heads << " left " << spec.mask.left
                      << " cap " << spec.softcap);
  const AttentionRun all = run_attention(spec, dtype, cpu.stream);
  const int64_t rows = shape.batch * shape.length, width = shape.heads * shape.head_dim;
  const int64_t keys = 2 * shape.kv_heads * shape.head_dim;
  const Tensor qkv = testing::upload(all.qkv, stream);
  const Tensor dy = testing::upload(all.dy, stream);
  const Tensor kv = testing::upload(columns_of(all.qkv, width, keys, cpu.stream), stream);
  Tensor y = Tensor::empty({rows, width}, DType::kF32, stream);
  Tensor lse = Tensor::empty(all.lse.shape(), DType::kF32, stream);
  Tensor delta = Tensor::empty(all.lse.shape(), DType::kF32, stream);
  AttentionSpec there = spec;
  for (Tensor* const of_mask : {&there.mask.ranges, &there.mask.layout}) {
    if (of_mask->defined()) *of_mask = testing::upload(*of_mask, stream);
  }
  for (const AttentionPart& part : parts_of(there, cuts)) {
    const bool is_first = part.queries.first == part.keys.first;
    attention_part_forward(stream, part, qkv, kv, y, lse,
                           is_first ? Write::kOverwrite : Write::kAccumulate);
  }
  REQUIRE(error_of(y, values_of(all.y)) < tolerance_of(dtype));
  REQUIRE(error_of(lse, values_of(all.lse)) < 1e-5);
  attention_delta(stream, shape, testing::upload(all.y, stream), dy, delta);
  Tensor dq = Tensor::zeros({rows, width}, DType::kF32, stream);
  Tensor dkv = Tensor::zeros({rows, keys}, DType::kF32, stream);
  for (const AttentionPart& part : parts_of(there, cuts)) {
    attention_part_backward(stream, part, qkv, kv,
                            {.log_sum_exp = lse, .delta = delta, .dy = dy, .dq = dq, .dkv = dkv});
  }
  REQUIRE(error_of(dq, values_of(columns_of(all.dqkv, 0, width, cpu.stream))) <
          slack * tolerance_of(dtype));
  REQUIRE(error_of(dkv, values_of(columns_of(all.dqkv, width, keys, cpu.stream))) <
          slack * tolerance_of(dtype));
}

TEST_CASE("parts of attention make the whole, forward and backward", "[kernels][device]") {
  TestStream s;
  for (const auto& [shape, cuts] : all_cuts()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      check_parts({shape}, cuts, dtype, s.stream);
    }
  }
}

// Keys may end, and begin, between those that the first and the last query of a block see.
TEST_CASE("a part sees of its keys what lies in reach, wherever it lies", "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{1, 110, 2, 1, 8};
  const int64_t width = 16, keys_width = 16;
  for (const int64_t right : {0, 2}) {
    const AttentionSpec spec{.shape = shape, .mask = {.left = 3, .right = right}};
    const Tensor qkv = random_tensor({110, shape.packed()}, DType::kF32, 1, s.stream);
    const Tensor kv = columns_of(qkv, width, keys_width, s.stream);
    Tensor y = Tensor::zeros({110, width}, DType::kF32, s.stream);
    Tensor lse = Tensor::zeros({1, 2, 110}, DType::kF32, s.stream);
    // Queries 40 to 103 over keys 0 to 69, and then over the others.
    const SequencePart queries{.length = 110, .first = 40, .count = 64, .position = 40};
    attention_part_forward(s.stream, part_of(spec, queries, {.length = 110, .count = 70}), qkv, kv,
                           y, lse, Write::kOverwrite);
    attention_part_forward(
        s.stream, part_of(spec, queries, {.length = 110, .first = 70, .count = 40, .position = 70}),
        qkv, kv, y, lse, Write::kAccumulate);
    const Values expected = reference::attention(spec, values_of(qkv));
    const auto first = expected.begin() + 40 * width;
    REQUIRE(error_of(y.narrow(40 * width, 64 * width), {first, first + 64 * width}) < 1e-5);
  }
  const auto part = [&](int64_t query, int64_t queries, int64_t key, int64_t keys) {
    return part_of({.shape = shape, .mask = window_mask(4)},
                   {.length = queries, .count = queries, .position = query},
                   {.length = keys, .count = keys, .position = key});
  };
  CHECK(sees_anything(part(0, 200, 50, 20)));
  CHECK(sees_anything(part(53, 1, 0, 51)));
  CHECK_FALSE(sees_anything(part(54, 1, 0, 51)));
  CHECK_FALSE(sees_anything(part(0, 10, 10, 5)));
}

// Rows of a part may see nothing of its keys, and whole parts are left out.
TEST_CASE("parts of attention with a window, a scale and a cap make the whole",
          "[kernels][device]") {
  TestStream s;
  for (const auto& [shape, cuts] : all_cuts()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      if (s.stream.device().kind == Device::Kind::kCuda && dtype == DType::kF32 &&
          shape.head_dim > 128) {
        CHECK_THROWS_AS(
            check_parts({.shape = shape, .mask = window_mask(2)}, cuts, dtype, s.stream),
            Unsupported);
        continue;
      }
      for (const int64_t window : {2, 3, 66}) {
        check_parts({.shape = shape, .mask = window_mask(window)}, cuts, dtype, s.stream);
      }
      check_parts({.shape = shape, .scale = 0.4F, .softcap = 2}, cuts, dtype, s.stream);
    }
  }
}

// Query t of a sample sees `range(sample, t)`.
AttentionMask ranges_of(const AttentionShape& shape, int64_t right, const auto& range,
                        Stream& host) {
  AttentionMask mask{.right = right};
  mask.ranges = Tensor::empty({shape.batch, shape.length, 2}, DType::kI32, host);
  int32_t* to = mask.ranges.data<int32_t>();
  for (int64_t sample = 0; sample < shape.batch; ++sample) {
    for (int64_t t = 0; t < shape.length; ++t) {
      const std::pair<int64_t, int64_t> seen = range(sample, t);
      *to++ = static_cast<int32_t>(seen.first);
      *to++ = static_cast<int32_t>(std::min(seen.second, shape.length));
    }
  }
  return mask;
}

// Samples have documents of other lengths, so that whose ranges are read matters.
TEST_CASE("parts of attention within documents, and with a prefix, make the whole",
          "[kernels][device]") {
  TestStream s;
  testing::CpuStream cpu;
  for (const auto& [shape, cuts] : all_cuts()) {
    if (shape.head_dim > 128) continue;  // fp32 heads that masks have no kernels for
    const auto document = [](int64_t sample, int64_t t) {
      const int64_t each = 5 + 24 * sample;
      return std::pair{t / each * each, (t / each + 1) * each};
    };
    const auto prefix = [](int64_t sample, int64_t t) {
      return std::pair{int64_t{0}, std::max<int64_t>(6 + 61 * sample, t + 1)};
    };
    const AttentionMask before = ranges_of(shape, 0, document, cpu.stream);
    AttentionMask near = before;
    near.left = 3;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const AttentionMask& mask :
           {before, near, ranges_of(shape, kAnyDistance, document, cpu.stream),
            ranges_of(shape, kAnyDistance, prefix, cpu.stream)}) {
        check_parts({.shape = shape, .mask = mask}, cuts, dtype, s.stream, 3);
      }
    }
  }
}

// A block of queries sees its own keys, and of the blocks before those that a draw lets it see, in
// each head another one.
TEST_CASE("parts of attention with a layout of blocks make the whole", "[kernels][device]") {
  TestStream s;
  testing::CpuStream cpu;
  for (const auto& [shape, cuts] : all_cuts()) {
    if (shape.head_dim > 128) continue;
    AttentionSpec spec{.shape = shape, .mask = {.block = 16}};
    const int64_t blocks = (shape.length + 15) / 16;
    spec.mask.layout = Tensor::empty({shape.heads, blocks, blocks}, DType::kU8, cpu.stream);
    uint8_t* to = spec.mask.layout.data<uint8_t>();
    const Rng rng(5, "layout");
    for (int64_t i = 0; i < spec.mask.layout.numel(); ++i) {
      const bool is_own = i / blocks % blocks == i % blocks;
      *to++ = is_own || rng.uniform(static_cast<uint64_t>(i)) < 0.5F ? 1 : 0;
    }
    check_parts(spec, cuts, DType::kF32, s.stream);
  }
}

TEST_CASE("a part that is none is refused", "[kernels]") {
  testing::CpuStream cpu;
  Stream& stream = cpu.stream;
  const Tensor qkv = Tensor::zeros({8, 12}, DType::kF32, stream);
  const Tensor kv = Tensor::zeros({8, 8}, DType::kF32, stream);
  Tensor y = Tensor::zeros({8, 4}, DType::kF32, stream),
         lse = Tensor::zeros({1, 1, 8}, DType::kF32, stream);
  AttentionPart part{.batch = 1, .heads = 1, .kv_heads = 1, .head_dim = 4};
  part.queries = part.keys = {.length = 8, .first = 4, .count = 4};
  const auto run = [&] {
    attention_part_forward(stream, part, qkv, kv, y, lse, Write::kOverwrite);
  };
  CHECK_NOTHROW(run());
  part.keys.first = 5;
  CHECK_THROWS_WITH(run(), Catch::Contains("keys [5, 9) of 8 rows"));
  part.keys = part.queries;
  part.mask.left = -1;
  CHECK_THROWS_WITH(run(), Catch::Contains("queries see -1 keys before"));
  part.mask = {.ranges = Tensor::zeros({1, 8, 2}, DType::kI32, stream)};
  part.whole_length = 8;
  CHECK_NOTHROW(run());
  part.keys.position = 5;
  CHECK_THROWS_WITH(run(), Catch::Contains("positions [5, 9) of 8"));
  part.keys.position = 0;
  part.whole_length = 9;
  CHECK_THROWS_WITH(run(), Catch::Contains("ranges"));
  part.mask = {.layout = Tensor::zeros({1, 1, 1}, DType::kU8, stream), .block = 17};
  CHECK_THROWS_WITH(run(), Catch::Contains("blocks of 17"));
}

}  // namespace
}  // namespace ds::kernels
