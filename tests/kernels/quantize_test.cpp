// Quantizers of tensors against plain loops over numbers, to the bit where nothing but fp32 enters:
// groups smaller and larger than a pack, a block and a part, numbers that are not finite, and every
// refusal.
#include "kernels/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/status/error.h"
#include "kernels/quantize/quantize_operands.h"
#include "tests/support/catch.h"
#include "tests/support/floats.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

Tensor floats(int64_t numel, Stream& stream) { return Tensor::empty({numel}, DType::kF32, stream); }

// `values` rounded to a dtype and back.
Floats rounded(const Floats& values, DType dtype, Stream& stream) {
  return floats_of(numbers(values, dtype, stream));
}

// Integers of communication ----------------------------------------------------------------------
IntCodes codes_for(int64_t numel, const IntQuant& how, Stream& stream, int64_t ranks = 1) {
  const int64_t groups = ranks * (numel / how.group_size);
  IntCodes codes{.q = Tensor::empty({ranks * how.code_bytes(numel)}, DType::kI8, stream),
                 .scale = floats(groups, stream)};
  if (how.range == IntRange::kAsymmetric) codes.offset = floats(groups, stream);
  return codes;
}

struct Coded {
  std::vector<int> q;
  Floats scale, offset;
};

// The formulas as DeepSpeed's quantizer has them.
Coded coded(const Floats& x, const IntQuant& how) {
  Coded result;
  const auto levels = static_cast<float>(1 << how.bits);
  const auto size = static_cast<size_t>(how.group_size);
  for (size_t first = 0; first < x.size(); first += size) {
    float low = x[first], high = x[first], largest = 0;
    for (size_t i = first; i < first + size; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
      largest = std::max(largest, std::abs(x[i]));
    }
    const bool is_symmetric = how.range == IntRange::kSymmetric;
    const float width = is_symmetric ? 2 * largest : high - low;
    const float scale = width > 0 ? levels / width : 1;
    const float shift = low * scale;
    const float offset = is_symmetric ? 0 : -levels / 2 - shift;
    result.scale.push_back(scale);
    result.offset.push_back(offset);
    for (size_t i = first; i < first + size; ++i) {
      const float scaled = x[i] * scale;
      const float level = std::nearbyint(scaled + offset);
      result.q.push_back(static_cast<int>(std::clamp(level, -levels / 2, levels / 2 - 1)));
    }
  }
  return result;
}

Floats decoded(const Coded& codes, int64_t group_size) {
  Floats x;
  for (size_t i = 0; i < codes.q.size(); ++i) {
    const size_t group = i / static_cast<size_t>(group_size);
    x.push_back((static_cast<float>(codes.q[i]) - codes.offset[group]) / codes.scale[group]);
  }
  return x;
}

// The bytes that hold codes.
std::vector<std::byte> packed(const std::vector<int>& q, int bits) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < q.size(); i += bits == 4 ? 2 : 1) {
    const int second = i + 1 < q.size() ? q[i + 1] : 0;
    bytes.push_back(static_cast<std::byte>(bits == 4 ? (q[i] & 15) * 16 + (second & 15) : q[i]));
  }
  return bytes;
}

void check_codes(const IntCodes& codes, const Coded& expected, const IntQuant& how) {
  REQUIRE(floats_of(codes.scale) == expected.scale);
  if (how.range == IntRange::kAsymmetric) REQUIRE(floats_of(codes.offset) == expected.offset);
  REQUIRE(bytes_of(codes.q) == packed(expected.q, how.bits));
}

const std::vector<IntQuant>& int_forms() {
  static const std::vector<IntQuant> forms{{.bits = 8, .range = IntRange::kSymmetric},
                                           {.bits = 4, .range = IntRange::kSymmetric},
                                           {.bits = 8, .range = IntRange::kAsymmetric},
                                           {.bits = 4, .range = IntRange::kAsymmetric}};
  return forms;
}

TEST_CASE("parts of a group cover it, and are few", "[kernels]") {
  using detail::parts_of;
  constexpr int64_t kMost = detail::kMostParts * detail::kLeastPart;
  for (const int64_t size : {int64_t{1}, int64_t{7}, detail::kLeastPart, detail::kLeastPart + 1,
                             kMost, kMost + 1, 5 * kMost - 3}) {
    const detail::GroupParts parts = parts_of(3, size);
    CAPTURE(size, parts.part, parts.of_group);
    CHECK(parts.of_group <= detail::kMostParts);
    CHECK(parts.part % detail::kLeastPart == 0);
    int64_t at = 0;
    for (int64_t i = 0; i < parts.count(); ++i) {
      REQUIRE(parts.begin(i) == at);
      REQUIRE(parts.end(i) > at);
      REQUIRE(parts.group_of(i) == at / size);
      at = parts.end(i);
    }
    CHECK(at == 3 * size);
  }
  CHECK(parts_of(4, 0).count() == 0);
}

TEST_CASE("integer codes are the reference's to the bit, and so are the numbers they give back",
          "[kernels][device]") {
  TestStream s;
  for (const DType dtype : float_dtypes()) {
    for (IntQuant how : int_forms()) {
      for (const int64_t size : {1, 3, 8, 40, 257, 4096, 4099, 8200}) {
        how.group_size = size;
        const int64_t numel = size * (size > 300 ? 1 : 5);
        CAPTURE(name_of(dtype), how.bits, static_cast<int>(how.range), size);
        const Tensor x = random_tensor({numel}, dtype, 3, s.stream, 5.0);
        const Coded expected = coded(floats_of(x), how);
        const IntCodes codes = codes_for(numel, how, s.stream);
        quantize_int(s.stream, x, how, codes);
        check_codes(codes, expected, how);
        Tensor y = Tensor::empty({numel}, dtype, s.stream);
        dequantize_int(s.stream, codes, how, y);
        REQUIRE(floats_of(y) == rounded(decoded(expected, size), dtype, s.stream));
      }
    }
  }
}

TEST_CASE("numbers and codes may begin anywhere", "[kernels][device]") {
  TestStream s;
  const int64_t numel = 48;
  for (IntQuant how : int_forms()) {
    how.group_size = 16;
    CAPTURE(how.bits, static_cast<int>(how.range));
    const Tensor x = random_tensor({numel + 3}, DType::kBF16, 3, s.stream).narrow(3, numel);
    const Tensor room = Tensor::zeros({numel + 2}, DType::kI8, s.stream);
    IntCodes codes = codes_for(numel, how, s.stream);
    codes.q = room.narrow(1, how.code_bytes(numel));
    const Coded expected = coded(floats_of(x), how);
    quantize_int(s.stream, x, how, codes);
    check_codes(codes, expected, how);
    CHECK(bytes_of(room).front() == std::byte{0});
    CHECK(bytes_of(room).back() == std::byte{0});
    Tensor y = floats(numel + 1, s.stream).narrow(1, numel);
    dequantize_int(s.stream, codes, how, y);
    CHECK(floats_of(y) == decoded(expected, 16));
  }
}

TEST_CASE("a group that is not finite comes back as NaN, and harms no other", "[kernels][device]") {
  TestStream s;
  constexpr float kLargest = std::numeric_limits<float>::max();
  constexpr int64_t kSize = 72;  // more than a vector's numbers, and no multiple of them
  Floats good;
  for (int i = 0; i < 9; ++i) {
    for (const float x : {1.0F, -2.0F, 0.5F, 0.25F, -1.0F, 2.0F, 0.0F, 0.125F}) good.push_back(x);
  }
  const std::vector<Floats> bad{
      {kNan}, {kNan, kInfinity}, {-kInfinity, 5}, {kLargest, -kLargest, 0}, {1, kNan, 1}};
  for (IntQuant how : int_forms()) {
    how.group_size = kSize;
    for (size_t i = 0; i < 10; ++i) {
      const Floats& poison = bad[i % 5];
      const auto at = static_cast<std::ptrdiff_t>(i < 5 ? 0 : 7 * i);
      CAPTURE(how.bits, i, at);
      Floats group = good;
      std::ranges::copy(poison, group.begin() + at);
      Floats values = good;
      values.insert(values.end(), group.begin(), group.end());
      values.insert(values.end(), good.begin(), good.end());
      const IntCodes codes = codes_for(3 * kSize, how, s.stream);
      quantize_int(s.stream, numbers(values, DType::kF32, s.stream), how, codes);
      Tensor y = floats(3 * kSize, s.stream);
      dequantize_int(s.stream, codes, how, y);
      Floats expected = decoded(coded(good, how), kSize);
      const Floats of_good = expected;
      expected.insert(expected.end(), kSize, kNan);
      expected.insert(expected.end(), of_good.begin(), of_good.end());
      CHECK(same(floats_of(y), expected));
      CHECK(std::isnan(floats_of(codes.scale)[1]));
      const auto bytes = bytes_of(codes.q);
      const auto third = static_cast<std::ptrdiff_t>(bytes.size() / 3);
      CHECK(std::all_of(bytes.begin() + third, bytes.begin() + 2 * third,
                        [](std::byte b) { return b == std::byte{0}; }));
    }
  }
}

TEST_CASE("groups of equal numbers, and too narrow ones, have the scale 1", "[kernels][device]") {
  TestStream s;
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  const Floats values{0, 0, 0, 0, kTiny, -kTiny, 0, kTiny, -0.0F, 0, -0.0F, 0};
  for (IntQuant how : int_forms()) {
    how.group_size = 4;
    const IntCodes codes = codes_for(12, how, s.stream);
    quantize_int(s.stream, numbers(values, DType::kF32, s.stream), how, codes);
    CHECK(floats_of(codes.scale) == Floats{1, 1, 1});
    Tensor y = floats(12, s.stream);
    dequantize_int(s.stream, codes, how, y);
    CHECK(floats_of(y) == Floats(12, 0.0F));
  }
  IntQuant how{.range = IntRange::kAsymmetric, .group_size = 3};
  const IntCodes codes = codes_for(3, how, s.stream);
  quantize_int(s.stream, numbers(Floats(3, 7.0F), DType::kF32, s.stream), how, codes);
  Tensor y = floats(3, s.stream);
  dequantize_int(s.stream, codes, how, y);
  CHECK(floats_of(y) == Floats(3, 7.0F));
}

TEST_CASE("codes of all ranks are added in rank order and quantized again", "[kernels][device]") {
  TestStream s;
  struct Case {
    int64_t numel, from_size, to_size;
  };
  const int64_t ranks = 3;
  for (size_t form = 0; form < int_forms().size(); ++form) {
    IntQuant from = int_forms()[form], to = int_forms()[(form + 1) % int_forms().size()];
    for (const Case& one : {Case{4104, 216, 4104}, Case{513, 19, 27}}) {
      from.group_size = one.from_size;
      to.group_size = one.to_size;
      CAPTURE(form, one.numel);
      const Tensor x = random_tensor({ranks * one.numel}, DType::kF32, 7, s.stream);
      const IntCodes sent = codes_for(one.numel, from, s.stream, ranks);
      Floats sums(static_cast<size_t>(one.numel));
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t bytes = from.code_bytes(one.numel), groups = one.numel / from.group_size;
        const IntCodes own{
            .q = sent.q.narrow(rank * bytes, bytes),
            .scale = sent.scale.narrow(rank * groups, groups),
            .offset = sent.offset.defined() ? sent.offset.narrow(rank * groups, groups) : Tensor()};
        const Tensor of_rank = x.narrow(rank * one.numel, one.numel);
        quantize_int(s.stream, of_rank, from, own);
        const Floats terms = decoded(coded(floats_of(of_rank), from), from.group_size);
        for (size_t i = 0; i < sums.size(); ++i) sums[i] += terms[i];
      }
      const IntCodes codes = codes_for(one.numel, to, s.stream);
      sum_codes(s.stream, {.from = sent,
                           .from_how = from,
                           .ranks = ranks,
                           .numel = one.numel,
                           .to = codes,
                           .to_how = to});
      check_codes(codes, coded(sums, to), to);
    }
  }
}

TEST_CASE("ranks' codes of an odd number begin at whole bytes", "[kernels][device]") {
  TestStream s;
  const IntQuant how{.bits = 4, .group_size = 3};
  const IntCodes codes = codes_for(3, how, s.stream);
  IntCodes sent{.q = Tensor::empty({4}, DType::kI8, s.stream), .scale = floats(2, s.stream)};
  for (int64_t rank = 0; rank < 2; ++rank) {
    const Floats values = rank == 0 ? Floats{-8, 4, 2} : Floats{4, -8, 1};
    const IntCodes own{.q = sent.q.narrow(2 * rank, 2), .scale = sent.scale.narrow(rank, 1)};
    quantize_int(s.stream, numbers(values, DType::kF32, s.stream), how, own);
  }
  sum_codes(s.stream,
            {.from = sent, .from_how = how, .ranks = 2, .numel = 3, .to = codes, .to_how = how});
  check_codes(codes, coded({-4, -4, 3}, how), how);
}

// Weights ----------------------------------------------------------------------------------------
GroupCodes codes_for(const GroupQuant& how, Stream& stream) {
  const int64_t numel = how.rows * how.columns;
  return {.q = Tensor::empty({how.bits == 4 ? numel / 2 : numel}, DType::kU8, stream),
          .scale = floats(how.group_count(), stream),
          .min = floats(how.group_count(), stream)};
}

TEST_CASE("weights in groups along both axes are the reference's to the bit", "[kernels][device]") {
  TestStream s;
  struct Form {
    int64_t rows, columns, group_size;
    int axis;
  };
  for (const Form& f :
       {Form{6, 8, 4, 1}, Form{6, 8, 3, 0}, Form{5, 48, 16, 1}, Form{4, 6, 3, 1}, Form{4, 7, 7, 1},
        Form{3, 7, 1, 0}, Form{2, 8400, 8400, 1}, Form{300, 10, 150, 0}, Form{12, 264, 4, 0}}) {
    for (const int bits : {4, 8}) {
      if (bits == 4 && f.columns % 2 != 0) continue;
      for (const DType dtype : float_dtypes()) {
        CAPTURE(f.rows, f.columns, f.group_size, f.axis, bits, name_of(dtype));
        const GroupQuant how{.bits = bits,
                             .rows = f.rows,
                             .columns = f.columns,
                             .group_size = f.group_size,
                             .group_axis = f.axis};
        const Tensor x = random_tensor({f.rows, f.columns}, dtype, 5, s.stream, 3.0);
        const Floats values = floats_of(x);
        const auto groups = static_cast<size_t>(how.group_count());
        Floats low(groups, kInfinity), high(groups, -kInfinity), scale(groups);
        const auto group_of = [&](size_t i) {
          const auto at = static_cast<int64_t>(i);
          return static_cast<size_t>(how.group_of(at / f.columns, at % f.columns));
        };
        for (size_t i = 0; i < values.size(); ++i) {
          low[group_of(i)] = std::min(low[group_of(i)], values[i]);
          high[group_of(i)] = std::max(high[group_of(i)], values[i]);
        }
        const float top = bits == 4 ? 15 : 255;
        for (size_t g = 0; g < groups; ++g) {
          scale[g] = high[g] > low[g] ? top * (1 / (high[g] - low[g])) : 1;
        }
        std::vector<int> q;
        Floats back;
        for (size_t i = 0; i < values.size(); ++i) {
          const size_t g = group_of(i);
          q.push_back(static_cast<int>(
              std::nearbyint(std::clamp((values[i] - low[g]) * scale[g], 0.0F, top))));
          back.push_back(static_cast<float>(q.back()) / scale[g] + low[g]);
        }
        const GroupCodes codes = codes_for(how, s.stream);
        quantize_groups(s.stream, x, how, codes);
        REQUIRE(floats_of(codes.scale) == scale);
        REQUIRE(floats_of(codes.min) == low);
        REQUIRE(bytes_of(codes.q) == packed(q, bits));
        Tensor y = Tensor::empty({f.rows, f.columns}, dtype, s.stream);
        dequantize_groups(s.stream, codes, how, y);
        REQUIRE(floats_of(y) == rounded(back, dtype, s.stream));
      }
    }
  }
}

TEST_CASE("weights that are not finite, or all equal, keep their group", "[kernels][device]") {
  TestStream s;
  for (const int axis : {0, 1}) {
    // Groups of two: NaN, infinite, equal, both zeros.
    Floats values{1, kNan, kInfinity, 2, 3, 3, -0.0F, 0};
    if (axis == 0) values = {1, kInfinity, 3, -0.0F, kNan, 2, 3, 0};
    const GroupQuant how{.rows = axis == 0 ? 2 : 4,
                         .columns = axis == 0 ? 4 : 2,
                         .group_size = 2,
                         .group_axis = axis};
    const GroupCodes codes = codes_for(how, s.stream);
    quantize_groups(s.stream, numbers(values, DType::kF32, s.stream), how, codes);
    CHECK(same(floats_of(codes.scale), {kNan, kNan, 1, 1}));
    CHECK_FALSE(std::signbit(floats_of(codes.min)[3]));
    CHECK(bytes_of(codes.q) == std::vector<std::byte>(8));
    Tensor y = floats(8, s.stream);
    dequantize_groups(s.stream, codes, how, y);
    const Floats expected = axis == 0 ? Floats{kNan, kNan, 3, 0, kNan, kNan, 3, 0}
                                      : Floats{kNan, kNan, kNan, kNan, 3, 3, 0, 0};
    CHECK(same(floats_of(y), expected));
  }
}

}  // namespace
}  // namespace ds::kernels
