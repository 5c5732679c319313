// Masks, scales and caps of attention: values and gradients of every half against the fp64
// reference, which asks of each query and key alone whether one sees the other.
#include <cmath>
#include <string>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_choice.h"
#include "kernels/attention/attention_mask.h"
#include "tests/kernels/attention/attention_run.h"
#include "tests/support/catch.h"
#include "tests/support/gradcheck.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;

// What the rows of a sequence of `length` see, the same in all samples but for `shift`.
using RangeOf = std::function<std::pair<int64_t, int64_t>(int64_t sample, int64_t row)>;
Tensor ranges_of(const AttentionShape& s, Stream& stream, const RangeOf& of) {
  std::vector<int32_t> out;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = 0; t < s.length; ++t) {
      const auto [begin, end] = of(b, t);
      out.push_back(static_cast<int32_t>(begin));
      out.push_back(static_cast<int32_t>(end));
    }
  }
  return testing::upload(out, {s.batch, s.length, 2}, stream);
}

// Documents of 1, 2, 3, ... rows, which begin elsewhere in each sample.
Tensor documents(const AttentionShape& s, Stream& stream) {
  return ranges_of(s, stream, [&](int64_t sample, int64_t row) {
    int64_t begin = 0, size = 1 + 3 * sample;
    while (begin + size <= row) begin += size++;
    return std::pair(begin, std::min(begin + size, s.length));
  });
}

// The last rows are no tokens: nobody sees them, and they see nothing.
Tensor padding(const AttentionShape& s, Stream& stream) {
  return ranges_of(s, stream, [&](int64_t sample, int64_t row) {
    const int64_t tokens = std::max<int64_t>(s.length - 3 - sample, 1);
    return std::pair<int64_t, int64_t>(0, row < tokens ? tokens : 0);
  });
}

Tensor prefix(const AttentionShape& s, Stream& stream) {
  return ranges_of(s, stream, [&](int64_t sample, int64_t row) {
    return std::pair<int64_t, int64_t>(0, std::max(row + 1, s.length / (2 + sample)));
  });
}

// Random blocks and the diagonal.
Tensor layout(const AttentionShape& s, int64_t heads, int64_t block, Stream& stream) {
  const int64_t blocks = (s.length + block - 1) / block;
  const Rng rng(5, "layout");
  std::vector<uint8_t> cells;
  for (int64_t i = 0; i < heads * blocks * blocks; ++i) {
    const bool is_diagonal = i / blocks % blocks == i % blocks;
    cells.push_back(is_diagonal || rng.uniform(static_cast<uint64_t>(i)) < 0.4F ? 1 : 0);
  }
  return testing::upload(cells, {heads, blocks, blocks}, stream);
}

struct NamedMask {
  std::string name;
  AttentionMask mask;
};

std::vector<NamedMask> masks_of(const AttentionShape& s, Stream& stream) {
  const AttentionMask full = full_mask();
  const auto with = [](AttentionMask mask, const Tensor& ranges, const Tensor& layout,
                       int64_t block) {
    mask.ranges = ranges;
    mask.layout = layout;
    mask.block = block;
    return mask;
  };
  const Tensor one = layout(s, 1, 16, stream), each = layout(s, s.heads, 48, stream);
  return {{"full", full},
          {"itself", window_mask(1)},
          {"window of 7", window_mask(7)},
          {"window of 64", window_mask(64)},
          {"window of 100", window_mask(100)},
          {"window on both sides", {.left = 5, .right = 66}},
          {"what comes", {.left = 0, .right = kAnyDistance}},
          {"documents", with({}, documents(s, stream), {}, 0)},
          {"whole documents", with(full, documents(s, stream), {}, 0)},
          {"padding", with(full, padding(s, stream), {}, 0)},
          {"prefix", with(full, prefix(s, stream), {}, 0)},
          {"blocks", with({}, {}, one, 16)},
          {"blocks of each head, both ways", with(full, {}, each, 48)},
          {"documents and a window", with(window_mask(9), documents(s, stream), {}, 0)},
          {"documents, a window and blocks", with(window_mask(40), documents(s, stream), one, 16)}};
}

// Rows that see nothing have a log-sum-exp of -infinity, whose difference is none.
Values finite(Values values) {
  for (double& value : values) value = std::isinf(value) ? -1e3 : value;
  return values;
}

void check_run(const AttentionSpec& spec, DType dtype, Stream& stream) {
  const AttentionRun r = run_attention(spec, dtype, stream);
  const Values x = values_of(r.qkv);
  Values lse;
  REQUIRE(error_of(r.y, reference::attention(spec, x, &lse)) < 2 * tolerance_of(dtype));
  const Values got = finite(values_of(r.lse));
  lse = finite(lse);
  double apart = 0;
  for (size_t i = 0; i < lse.size(); ++i) apart = std::max(apart, std::abs(got[i] - lse[i]));
  REQUIRE(apart < 1e-4);
  REQUIRE(error_of(r.dqkv, reference::attention_gradient(spec, x, values_of(r.dy))) <
          3 * tolerance_of(dtype));
}

// Heads of queries and of keys: as many, grouped, one.
std::vector<AttentionShape> shapes() {
  if (testing::is_on_device()) return {{2, 65, 4, 2, 16}, {1, 130, 2, 1, 32}, {1, 33, 1, 1, 136}};
  std::vector<AttentionShape> out{{2, 150, 4, 2, 20}, {1, 70, 2, 1, 128}};
  for (const int64_t length : {1, 63, 64, 65}) {
    for (const int64_t kv_heads : {8, 2, 1}) out.push_back({1, length, 8, kv_heads, 8});
  }
  out.push_back({1, 257, 4, 2, 8});
  return out;
}

// A device that is emulated is given every mask in one shape and fp32, and some in the others.
bool is_left_out(size_t shape, size_t mask, DType dtype) {
  const bool is_one_of_many = shape > 0 || dtype != DType::kF32;
  return testing::test_device().is_emulated && is_one_of_many && (mask + shape) % 5 != 1;
}

TEST_CASE("attention with every mask matches the reference, values and gradients",
          "[kernels][device]") {
  TestStream s;
  const std::vector<AttentionShape> all = shapes();
  for (size_t i = 0; i < all.size(); ++i) {
    const AttentionShape& shape = all[i];
    const std::vector<NamedMask> masks = masks_of(shape, s.stream);
    for (size_t m = 0; m < masks.size(); ++m) {
      for (const DType dtype : float_dtypes()) {
        if (dtype != DType::kF32 && shape.length > 150) continue;  // other cases have these
        if (is_left_out(i, m, dtype)) continue;
        INFO(masks[m].name << ", " << name_of(dtype) << " T " << shape.length << " heads "
                           << shape.heads << "/" << shape.kv_heads << " D " << shape.head_dim);
        check_run({.shape = shape, .mask = masks[m].mask}, dtype, s.stream);
      }
    }
  }
}

TEST_CASE("attention with a scale and a cap matches the reference, under masks too",
          "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{1, testing::is_on_device() ? 66 : 131, 4, 2, 24};
  const std::vector<NamedMask> masks = masks_of(shape, s.stream);
  for (size_t m = 0; m < masks.size(); ++m) {
    for (const DType dtype : float_dtypes()) {
      if (is_left_out(1, m, dtype)) continue;
      INFO(masks[m].name << ", " << name_of(dtype));
      check_run({.shape = shape, .mask = masks[m].mask, .scale = 0.5F, .softcap = 3}, dtype,
                s.stream);
    }
  }
  for (const DType dtype : float_dtypes()) {
    check_run({.shape = shape, .scale = 0.07F}, dtype, s.stream);
    check_run({.shape = shape, .softcap = 50}, dtype, s.stream);
    check_run({.shape = shape, .scale = 4, .softcap = 0.5F}, dtype, s.stream);
  }
}

// The gradients of the reference, which the others are compared with, are those of its values.
TEST_CASE("the reference of masked attention has the gradients of its values", "[kernels]") {
  TestStream s;
  const AttentionShape shape{2, 9, 4, 2, 3};
  for (const NamedMask& m : masks_of(shape, s.stream)) {
    for (const float softcap : {0.0F, 1.5F}) {
      INFO(m.name);
      const AttentionSpec spec{.shape = shape, .mask = m.mask, .scale = 0.7F, .softcap = softcap};
      const Values x = values_of(random_tensor({18, shape.packed()}, DType::kF32, 1, s.stream));
      const Values dy = values_of(random_tensor({18, 12}, DType::kF32, 2, s.stream));
      const Values expected = numeric_gradient(
          [&](const Values& v) { return dot(dy, reference::attention(spec, v)); }, x);
      const Values got = reference::attention_gradient(spec, x, dy);
      for (size_t i = 0; i < got.size(); ++i) {
        REQUIRE(got[i] == Approx(expected[i]).epsilon(1e-5).margin(1e-6));
      }
    }
  }
}

TEST_CASE("masked attention drops the probabilities that plain attention drops",
          "[kernels][device]") {
  TestStream s;
  const Rng numbers(3, "drop"), rng = numbers.derive(2);
  const testing::PlacedInputs inputs(numbers, 5, s.stream);
  const AttentionDropout dropout{.p = 0.4F, .mask = inputs.mask(2)};
  const AttentionShape shape{testing::is_on_device() ? 1 : 2, 70, 2, 1, 8};
  const Keep keep = kept_by(rng, dropout, shape, 5);
  const std::vector<NamedMask> masks = masks_of(shape, s.stream);
  for (size_t m = 0; m < masks.size(); ++m) {
    if (is_left_out(1, m, DType::kF32)) continue;
    INFO(masks[m].name);
    const AttentionSpec spec{.shape = shape, .mask = masks[m].mask};
    const AttentionRun r = run_attention(spec, DType::kF32, s.stream, dropout);
    const Values x = values_of(r.qkv), dy = values_of(r.dy), gradient = values_of(r.dqkv);
    REQUIRE(error_of(r.y, reference::attention(spec, x, nullptr, keep)) < 1e-5);
    const Values direction = values_of(random_tensor(r.qkv.shape(), DType::kF32, 7, s.stream));
    const auto along = [&](double step) {
      Values moved = x;
      for (size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
      return dot(dy, reference::attention(spec, moved, nullptr, keep));
    };
    const double expected = (along(1e-5) - along(-1e-5)) / 2e-5;
    REQUIRE(dot(gradient, direction) == Approx(expected).epsilon(1e-4).margin(1e-4));
  }
}

// A window that holds the sequence is causal attention, by the same kernels.
TEST_CASE("a mask that hides nothing more than causality has its bits", "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{2, 70, 4, 2, 16};
  for (const DType dtype : float_dtypes()) {
    const AttentionRun plain = run_attention({shape}, dtype, s.stream);
    const AttentionRun window =
        run_attention({.shape = shape, .mask = window_mask(70)}, dtype, s.stream);
    REQUIRE(same_bits(plain.y, window.y));
    REQUIRE(same_bits(plain.dqkv, window.dqkv));
  }
  CHECK(AttentionSpec{.shape = shape, .mask = window_mask(70)}.is_plain());
  CHECK_FALSE(AttentionSpec{.shape = shape, .mask = window_mask(69)}.is_plain());
  CHECK_FALSE(AttentionSpec{.shape = shape, .mask = full_mask()}.is_plain());
  CHECK_FALSE(AttentionSpec{.shape = {1, 1, 1, 1, 8}, .mask = full_mask(), .scale = 2}.is_plain());
  CHECK_FALSE(AttentionSpec{.shape = shape, .softcap = 2}.is_plain());
}

// Packed rows: a document is computed as if it were alone.
TEST_CASE("documents that share a row do not see each other", "[kernels][device]") {
  TestStream s;
  const AttentionShape row{1, 100, 2, 1, 16}, alone{1, 36, 2, 1, 16};
  AttentionSpec spec{.shape = row};
  spec.mask.ranges = ranges_of(row, s.stream, [](int64_t, int64_t t) {
    return t < 64 ? std::pair<int64_t, int64_t>(0, 64) : std::pair<int64_t, int64_t>(64, 100);
  });
  const AttentionRun packed = run_attention(spec, DType::kF32, s.stream);
  const Tensor qkv = packed.qkv.narrow(64 * row.packed(), 36 * row.packed());
  Tensor y = Tensor::empty({36, 32}, DType::kF32, s.stream);
  Tensor lse = Tensor::empty({1, 2, 36}, DType::kF32, s.stream);
  attention_forward(s.stream, {.shape = alone, .mask = {.left = 1000}}, qkv, y, lse);
  REQUIRE(error_of(y, values_of(packed.y.narrow(int64_t{64} * 32, int64_t{36} * 32))) < 1e-6);
}

TEST_CASE("masked attention gives equal bits for any number of threads", "[kernels]") {
  const AttentionShape shape{2, 150, 4, 2, 16};
  TestStream one(1), many(4);
  const std::vector<NamedMask> here = masks_of(shape, one.stream),
                               there = masks_of(shape, many.stream);
  for (size_t i = 0; i < here.size(); ++i) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      INFO(here[i].name);
      const AttentionRun a =
          run_attention({.shape = shape, .mask = here[i].mask}, dtype, one.stream);
      const AttentionRun b =
          run_attention({.shape = shape, .mask = there[i].mask}, dtype, many.stream);
      REQUIRE(same_bits(a.y, b.y));
      REQUIRE(same_bits(a.dqkv, b.dqkv));
    }
  }
}

TEST_CASE("decoding sees the window, with the scale and the cap of the whole",
          "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{2, 37, 4, 2, 24};
  const int64_t capacity = 50, width = shape.kv_heads * shape.head_dim;
  const int64_t outputs = shape.heads * shape.head_dim;
  for (const AttentionSpec& spec :
       {AttentionSpec{.shape = shape, .mask = window_mask(1)},
        AttentionSpec{.shape = shape, .mask = window_mask(10)},
        AttentionSpec{.shape = shape, .mask = full_mask(), .scale = 0.5F, .softcap = 2}}) {
    for (const DType dtype : float_dtypes()) {
      const Tensor qkv = random_tensor({2 * shape.length, shape.packed()}, dtype, 1, s.stream);
      const Values x = values_of(qkv), y = reference::attention(spec, x);
      Values q, expected, k(static_cast<size_t>(2 * capacity * width)), v(k.size());
      for (int64_t b = 0; b < 2; ++b) {
        for (int64_t t = 0; t < shape.length; ++t) {
          const int64_t row = (b * shape.length + t) * shape.packed() + outputs;
          for (int64_t i = 0; i < width; ++i) {
            const auto to = static_cast<size_t>((b * capacity + t) * width + i);
            k[to] = x[static_cast<size_t>(row + i)];
            v[to] = x[static_cast<size_t>(row + width + i)];
          }
        }
        const int64_t last = (b + 1) * shape.length - 1;
        for (int64_t i = 0; i < outputs; ++i) {
          q.push_back(x[static_cast<size_t>(last * shape.packed() + i)]);
          expected.push_back(y[static_cast<size_t>(last * outputs + i)]);
        }
      }
      Tensor out = Tensor::empty({2, outputs}, dtype, s.stream);
      attention_decode(s.stream, spec, tensor_of(q, out.shape(), dtype, s.stream),
                       tensor_of(k, {2, capacity, width}, dtype, s.stream),
                       tensor_of(v, {2, capacity, width}, dtype, s.stream), capacity, out);
      REQUIRE(error_of(out, expected) < 2 * tolerance_of(dtype));
    }
  }
}

TEST_CASE("a mask that is none is refused", "[kernels]") {
  TestStream s;
  const AttentionShape shape{1, 40, 2, 1, 8};
  const auto refusal_of = [&](AttentionSpec spec) {
    spec.shape = shape;
    try {
      run_attention(spec, DType::kF32, s.stream);
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto bytes = [&](const Shape& of) { return Tensor::zeros(of, DType::kU8, s.stream); };
  CHECK_THAT(refusal_of({.mask = {.left = -1}}), Catch::Contains("queries see -1 keys before"));
  CHECK_THAT(refusal_of({.softcap = -1}), Catch::Contains("softcap -1"));
  CHECK_THAT(refusal_of({.mask = {.ranges = Tensor::zeros({1, 39, 2}, DType::kI32, s.stream)}}),
             Catch::Contains("ranges has shape [1, 39, 2]"));
  CHECK_THAT(refusal_of({.mask = {.ranges = Tensor::zeros({1, 40, 2}, DType::kF32, s.stream)}}),
             Catch::Contains("ranges"));
  CHECK_THAT(refusal_of({.mask = {.layout = bytes({1, 3, 3}), .block = 15}}),
             Catch::Contains("blocks of 15, expected a multiple of 16"));
  CHECK_THAT(refusal_of({.mask = {.layout = bytes({3, 3, 3}), .block = 16}}),
             Catch::Contains("a layout of [3, 3, 3] for 2 heads and 3 blocks of 16"));
  CHECK_THAT(refusal_of({.mask = {.layout = bytes({2, 3, 3}), .block = 16}}),
             Catch::Equals("nothing"));
  AttentionSpec spec{.shape = shape};
  spec.mask.ranges = Tensor::zeros({1, 40, 2}, DType::kI32, s.stream);
  Tensor q = Tensor::zeros({1, 16}, DType::kF32, s.stream);
  const Tensor cache = Tensor::zeros({1, 40, 8}, DType::kF32, s.stream);
  CHECK_THROWS_AS(attention_decode(s.stream, spec, q, cache, cache, 40, q), Unsupported);
}

struct Flops : Trace {
  void on_op(std::string_view, const OpCost& cost) override { counted = cost.flops; }
  double counted = 0;
};

TEST_CASE("pairs are counted as they are seen one by one", "[kernels]") {
  for (const int32_t shift : {-70, -30, -3, 0, 4, 40, 90}) {
    for (const int32_t left : {0, 4, 30, detail::kFar}) {
      for (const int32_t right : {0, 2, 50, detail::kFar}) {
        const detail::SeenKeys seen{
            .left = left, .right = right, .query_position = 70 + shift, .key_position = 70};
        double pairs = 0;
        for (int64_t query = 0; query < 64; ++query) {
          for (int64_t key = 0; key < 70; ++key) {
            const int64_t back = query + shift - key;
            pairs += back <= left && -back <= right ? 1 : 0;
          }
        }
        CAPTURE(shift, left, right);
        CHECK(seen.pairs(64, 70) == pairs);
      }
    }
  }
}

TEST_CASE("the costs of attention count the pairs that positions let meet", "[kernels]") {
  Flops flops;
  TestStream s(1, size_t{1} << 20, &flops);
  const AttentionShape shape{1, 10, 2, 1, 4};
  const auto pairs_of = [&](const AttentionMask& mask) {
    const AttentionSpec spec{.shape = shape, .mask = mask};
    const Tensor qkv = Tensor::zeros({10, shape.packed()}, DType::kF32, s.stream);
    Tensor y = Tensor::empty({10, 8}, DType::kF32, s.stream);
    Tensor lse = Tensor::empty({1, 2, 10}, DType::kF32, s.stream);
    attention_forward(s.stream, spec, qkv, y, lse);
    return flops.counted / (2 * 2 * 2 * 4);  // two products of two heads, a multiply-add counts two
  };
  CHECK(pairs_of({}) == 55);
  CHECK(pairs_of(full_mask()) == 100);
  CHECK(pairs_of(window_mask(1)) == 10);
  CHECK(pairs_of(window_mask(3)) == 27);
  CHECK(pairs_of({.left = 1, .right = 2}) == 10 + 9 + 9 + 8);
  CHECK(pairs_of(window_mask(100)) == 55);
}

// Whatever the mask: bits of tiles are what a query sees, and a block's span holds all of it.
TEST_CASE("tiles and spans say what a query sees", "[kernels]") {
  const Rng rng(9, "seen");
  uint64_t next = 0;
  const auto number = [&](int64_t below) {
    return static_cast<int64_t>(rng.uniform(next++) * static_cast<float>(below)) % below;
  };
  const auto number32 = [&](int64_t below) { return static_cast<int32_t>(number(below)); };
  for (int round = 0; round < 400; ++round) {
    const int64_t queries = 1 + number(150), keys = 1 + number(150), block = 16 * (1 + number(6));
    detail::SeenKeys seen{.left = number(2) == 0 ? detail::kFar : number32(100),
                          .right = number(2) == 0 ? detail::kFar : number32(100),
                          .query_position = number32(100),
                          .key_position = number32(100)};
    const int64_t length = std::max(seen.query_position + queries, seen.key_position + keys);
    const int64_t blocks = (length + block - 1) / block;
    seen.length = static_cast<int32_t>(length);
    std::vector<int32_t> ranges;
    std::vector<uint8_t> layout;
    if (number(2) == 0) {
      for (int64_t i = 0; i < 2 * length; ++i) ranges.push_back(number32(length + 1));
      seen.ranges = ranges.data();
    }
    if (number(2) == 0) {
      for (int64_t i = 0; i < blocks * blocks; ++i)
        layout.push_back(static_cast<uint8_t>(number(2)));
      seen.layout = layout.data();
      seen.layout_heads = 1;
      seen.blocks = static_cast<int32_t>(blocks);
      seen.block = static_cast<int32_t>(block);
    }
    const int64_t first_query = number(queries);
    const detail::SeenByRows group{.seen = seen,
                                   .first = first_query,
                                   .rows = std::min<int64_t>(1 + number(70), queries - first_query),
                                   .keys = keys};
    const detail::KeySpan span = group.span();
    const int64_t query = first_query + number(group.rows), own = query + seen.shift();
    detail::SeenByRows rows = group;
    rows.first = query;
    rows.rows = 1;
    for (int64_t key = 0; key < keys; ++key) {
      bool sees = own - key <= seen.left && key - own <= seen.right;
      if (!ranges.empty()) {
        const auto at = static_cast<size_t>(2 * (seen.query_position + query));
        const int64_t position = seen.key_position + key;
        sees = sees && position >= ranges[at] && position < ranges[at + 1];
      }
      if (!layout.empty()) {
        const int64_t row = (seen.query_position + query) / block;
        const int64_t column = (seen.key_position + key) / block;
        sees = sees && layout[static_cast<size_t>(row * blocks + column)] != 0;
      }
      CAPTURE(round, query, key);
      const int64_t first = std::max<int64_t>(key - number(64), 0);
      REQUIRE((rows.tile(0, first) >> (key - first) & 1U) == (sees ? 1U : 0U));
      if (sees) REQUIRE((span.begin <= key && key < span.end));
    }
    REQUIRE(rows.tile(0, keys) == 0);
    REQUIRE(rows.tile(1, 0) == 0);
  }
}

}  // namespace
}  // namespace ds::kernels
