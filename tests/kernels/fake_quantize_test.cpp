// Fake quantization of tensors against plain loops over numbers, and the refusals of all quantizers
// of tensors.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/status/error.h"
#include "kernels/quantize/quantize.h"
#include "tests/support/catch.h"
#include "tests/support/floats.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;

// Symmetric and asymmetric, of one group.
Floats by_scale(const Floats& x, const FakeQuant& how, size_t first) {
  float low = *std::ranges::min_element(x), high = *std::ranges::max_element(x);
  if (how.static_range) std::tie(low, high) = *how.static_range;
  const auto q = static_cast<float>(1 << how.bits);
  const bool is_symmetric = how.scheme == QuantScheme::kSymmetric;
  const float largest = std::max(std::abs(low), std::abs(high));
  const float scale = is_symmetric ? 2 * largest / q : (high - low) / q;
  const float zero = is_symmetric ? 0 : std::nearbyint(low / scale) * scale;
  const float least = is_symmetric ? -q / 2 : 0, most = is_symmetric ? q / 2 - 1 : q - 1;
  Floats y;
  for (size_t i = 0; i < x.size(); ++i) {
    const float noise = how.stochastic ? how.stochastic->uniform(first + i) - 0.5F : 0;
    const float level = std::nearbyint((x[i] - zero) / scale + noise);
    const float from_zero = std::clamp(level, least, most) * scale;
    y.push_back(scale == 0 ? x[i] : from_zero + zero);
  }
  return y;
}

// Ternary and binary, of one group.
Floats by_magnitude(const Floats& x, QuantScheme scheme) {
  double sum = 0, above = 0, count = 0;
  for (const float v : x) sum += std::abs(static_cast<double>(v));
  const double mean = sum / static_cast<double>(x.size());
  const float threshold = scheme == QuantScheme::kTernary ? 0.7F * static_cast<float>(mean) : 0;
  for (const float v : x) {
    if (std::abs(v) > threshold) above += std::abs(static_cast<double>(v));
    if (std::abs(v) > threshold) count += 1;
  }
  const double level = scheme == QuantScheme::kBinary ? mean : count > 0 ? above / count : 0;
  Floats y;
  for (const float v : x) {
    y.push_back(std::abs(v) > threshold ? std::copysign(static_cast<float>(level), v) : 0);
  }
  return y;
}

template <class Group>
Floats in_groups(const Floats& x, int64_t groups, const Group& of_group) {
  Floats y;
  const size_t size = x.size() / static_cast<size_t>(groups);
  for (size_t first = 0; first < x.size(); first += size) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
    const Floats part = of_group(Floats(begin, begin + static_cast<std::ptrdiff_t>(size)), first);
    y.insert(y.end(), part.begin(), part.end());
  }
  return y;
}

Floats fake(const Floats& x, DType dtype, const FakeQuant& how, Stream& stream) {
  const Tensor from = numbers(x, dtype, stream);
  Tensor y = Tensor::empty(from.shape(), dtype, stream);
  fake_quantize(stream, from, how, y);
  return floats_of(y);
}

TEST_CASE("fake quantization by scale is the reference's to the bit, also in place",
          "[kernels][device]") {
  TestStream s;
  const Rng rng(3, "rounding");
  for (const QuantScheme scheme : {QuantScheme::kSymmetric, QuantScheme::kAsymmetric}) {
    for (const Rng* stochastic : {static_cast<const Rng*>(nullptr), &rng}) {
      for (const DType dtype : float_dtypes()) {
        for (const int64_t size : {1, 5, 8, 300, 4097, 8208}) {
          if (size > 1000 && dtype == DType::kF16) continue;  // the parts are those of bf16
          const int64_t groups = size > 1000 ? 1 : 7;
          CAPTURE(static_cast<int>(scheme), stochastic != nullptr, name_of(dtype), size);
          const FakeQuant how{.scheme = scheme,
                              .bits = size % 2 == 0 ? 4 : 8,
                              .groups = groups,
                              .stochastic = stochastic};
          Tensor x = random_tensor({groups * size}, dtype, 5, s.stream, 2.0);
          const Floats expected = in_groups(
              floats_of(x), groups,
              [&](const Floats& of_group, size_t first) { return by_scale(of_group, how, first); });
          Tensor y = Tensor::empty(x.shape(), dtype, s.stream);
          fake_quantize(s.stream, x, how, y);
          REQUIRE(same(floats_of(y), floats_of(numbers(expected, dtype, s.stream))));
          fake_quantize(s.stream, x, how, x);
          REQUIRE(same_bits(x, y));
        }
      }
    }
  }
}

TEST_CASE("a static range clamps what is beyond, and lets NaN through", "[kernels][device]") {
  TestStream s;
  const Floats x{-3, -2, -0.3F, 0.3F, 2, 3, 1, 1.5F};
  for (const QuantScheme scheme : {QuantScheme::kSymmetric, QuantScheme::kAsymmetric}) {
    const FakeQuant how{.scheme = scheme, .bits = 4, .static_range = std::pair(-2.0F, 2.0F)};
    CHECK(fake(x, DType::kF32, how, s.stream) == by_scale(x, how, 0));
    const Floats got = fake({kInfinity, -kInfinity, kNan, 1}, DType::kF32, how, s.stream);
    CHECK(same(got, {1.75F, -2, kNan, 1}));
  }
}

TEST_CASE("ternary and binary levels are the means of magnitudes", "[kernels][device]") {
  TestStream s;
  for (const QuantScheme scheme : {QuantScheme::kTernary, QuantScheme::kBinary}) {
    for (const DType dtype : float_dtypes()) {
      for (const int64_t size : {1, 5, 8, 64, 4097, 8208}) {
        const int64_t groups = size > 1000 ? 1 : 7;
        CAPTURE(static_cast<int>(scheme), name_of(dtype), size);
        const FakeQuant how{.scheme = scheme, .groups = groups};
        Tensor x = random_tensor({groups * size}, dtype, 5, s.stream, 2.0);
        const Floats expected = in_groups(
            floats_of(x), groups,
            [&](const Floats& of_group, size_t) { return by_magnitude(of_group, scheme); });
        fake_quantize(s.stream, x, how, x);
        REQUIRE(error_of(x, Values(expected.begin(), expected.end())) <
                (dtype == DType::kF32 ? 1e-6 : tolerance_of(dtype)));
      }
    }
  }
}

TEST_CASE("fake quantization of numbers that are not finite, of equal ones and of zeros",
          "[kernels][device]") {
  TestStream s;
  for (const QuantScheme scheme : {QuantScheme::kSymmetric, QuantScheme::kAsymmetric,
                                   QuantScheme::kTernary, QuantScheme::kBinary}) {
    CAPTURE(static_cast<int>(scheme));
    const FakeQuant how{.scheme = scheme, .bits = 4, .groups = 4};
    const Floats x{1, kNan, -1, -kInfinity, 0, 2, 0, 0, 2, 0.5F, 0.5F, 0.5F};
    const Floats got = fake(x, DType::kF32, how, s.stream);
    for (size_t i = 0; i < 6; ++i) CHECK(std::isnan(got[i]));
    CHECK(std::ranges::none_of(Floats(got.begin() + 6, got.end()),
                               [](float v) { return std::isnan(v); }));
    CHECK(got[6] == 0);
    const Floats equal =
        fake(Floats(12, 0.5F), DType::kF32, {.scheme = scheme, .bits = 4}, s.stream);
    // The symmetric range has no code at its top.
    CHECK(equal == Floats(12, scheme == QuantScheme::kSymmetric ? 0.4375F : 0.5F));
    CHECK(fake(Floats(8), DType::kF32, {.scheme = scheme}, s.stream) == Floats(8));
  }
}

TEST_CASE("quantizers of nothing do nothing", "[kernels][device]") {
  TestStream s;
  const auto none = [&](DType dtype) { return Tensor::zeros({0}, dtype, s.stream); };
  Tensor x = none(DType::kF32);
  for (const QuantScheme scheme : {QuantScheme::kSymmetric, QuantScheme::kTernary}) {
    CHECK_NOTHROW(fake_quantize(s.stream, x, {.scheme = scheme, .groups = 3}, x));
  }
  const IntQuant ints{.group_size = 4};
  const IntCodes codes{.q = none(DType::kI8), .scale = none(DType::kF32)};
  CHECK_NOTHROW(quantize_int(s.stream, x, ints, codes));
  CHECK_NOTHROW(dequantize_int(s.stream, codes, ints, x));
  CHECK_NOTHROW(sum_codes(
      s.stream, {.from = codes, .from_how = ints, .ranks = 2, .to = codes, .to_how = ints}));
  const GroupQuant how{.rows = 0, .columns = 4, .group_size = 2};
  const GroupCodes levels{
      .q = none(DType::kU8), .scale = none(DType::kF32), .min = none(DType::kF32)};
  CHECK_NOTHROW(quantize_groups(s.stream, x, how, levels));
  CHECK_NOTHROW(dequantize_groups(s.stream, levels, how, x));
}

TEST_CASE("fake quantization refuses operands that do not fit", "[kernels][device]") {
  TestStream s;
  const auto make = [&](int64_t n, DType dtype) { return Tensor::zeros({n}, dtype, s.stream); };
  Tensor x = make(6, DType::kF32), five = make(5, DType::kF32), half = make(6, DType::kF16), none;
  const Tensor ints = make(6, DType::kI32);
  CHECK_THROWS_WITH(fake_quantize(s.stream, none, {}, x),
                    Catch::Contains("fake_quantize: x is undefined"));
  CHECK_THROWS_WITH(
      fake_quantize(s.stream, x, {}, five),
      Catch::Contains("fake_quantize: y has shape [5] (5 elements), expected 6 elements"));
  CHECK_THROWS_WITH(fake_quantize(s.stream, x, {}, half),
                    Catch::Contains("fake_quantize: y is fp16, expected fp32"));
  CHECK_THROWS_WITH(fake_quantize(s.stream, ints, {}, x), Catch::Contains("x is int32, expected"));
  CHECK_THROWS_WITH(fake_quantize(s.stream, x, {.groups = 4}, x),
                    Catch::Contains("6 values cannot be cut into 4 equal groups"));
  CHECK_THROWS_AS(fake_quantize(s.stream, x, {.bits = 0}, x), ConfigError);
}

TEST_CASE("integer forms refuse operands that do not fit", "[kernels][device]") {
  TestStream s;
  const auto make = [&](int64_t n, DType dtype) { return Tensor::zeros({n}, dtype, s.stream); };
  Tensor x = make(6, DType::kF32);
  const Tensor two = make(2, DType::kF32), bytes = make(6, DType::kI8);
  const IntQuant how{.group_size = 3};
  const IntQuant wide{.range = IntRange::kAsymmetric, .group_size = 3};
  const auto refuses = [&](const IntQuant& form, const IntCodes& codes, const char* message) {
    CAPTURE(message);
    CHECK_THROWS_WITH(quantize_int(s.stream, x, form, codes), Catch::Contains(message));
    CHECK_THROWS_WITH(dequantize_int(s.stream, codes, form, x), Catch::Contains(message));
  };
  refuses({.bits = 5}, {bytes, two}, "bits is 5, expected 4 or 8");
  refuses({.group_size = 0}, {bytes, two}, "group_size is 0, expected at least 1");
  refuses({.group_size = 4}, {bytes, two}, "6 numbers cannot be cut into groups of 4");
  refuses(how, {make(5, DType::kI8), two}, "q has shape [5] (5 elements), expected 6");
  refuses({.bits = 4, .group_size = 3}, {bytes, two}, "expected 3 elements");
  refuses(how, {make(6, DType::kU8), two}, "q is uint8, expected int8");
  refuses(how, {bytes, x}, "scale has shape [6] (6 elements), expected 2");
  refuses(how, {bytes, two, two}, "offset is given, but the range is symmetric");
  refuses(wide, {bytes, two}, "offset is undefined, expected 2 elements");
  SumCodesArgs args{.from = {bytes, two},
                    .from_how = how,
                    .ranks = 1,
                    .numel = 6,
                    .to = {bytes, two},
                    .to_how = how};
  CHECK_NOTHROW(sum_codes(s.stream, args));
  args.ranks = 2;
  CHECK_THROWS_WITH(sum_codes(s.stream, args), Catch::Contains("sum_codes: from.q has shape"));
  args.ranks = 0;
  CHECK_THROWS_WITH(sum_codes(s.stream, args), Catch::Contains("6 numbers of 0 ranks"));
  args.ranks = 1;
  args.to.q = two;
  CHECK_THROWS_WITH(sum_codes(s.stream, args), Catch::Contains("sum_codes: to.q has shape"));
}

TEST_CASE("forms of weights refuse operands that do not fit", "[kernels][device]") {
  TestStream s;
  const auto make = [&](int64_t n, DType dtype) { return Tensor::zeros({n}, dtype, s.stream); };
  Tensor x = make(8, DType::kF32);
  const Tensor four = make(4, DType::kF32), bytes = make(8, DType::kU8);
  const GroupQuant how{.rows = 2, .columns = 4, .group_size = 2};
  const auto refuses = [&](const GroupCodes& codes, const char* message) {
    CAPTURE(message);
    CHECK_THROWS_WITH(quantize_groups(s.stream, x, how, codes), Catch::Contains(message));
    CHECK_THROWS_WITH(dequantize_groups(s.stream, codes, how, x), Catch::Contains(message));
  };
  refuses({make(4, DType::kU8), four, four}, "q has shape [4] (4 elements), expected 8");
  refuses({make(8, DType::kI8), four, four}, "q is int8, expected uint8");
  refuses({bytes, x, four}, "scale has shape [8] (8 elements), expected 4");
  refuses({bytes, four, {}}, "min is undefined");
  CHECK_THROWS_AS(
      quantize_groups(s.stream, x, {.bits = 3, .rows = 2, .columns = 4}, {bytes, four, four}),
      ConfigError);
  CHECK_THROWS_WITH(quantize_groups(s.stream, four, how, {bytes, four, four}),
                    Catch::Contains("x has shape [4]"));
}

}  // namespace
}  // namespace ds::kernels
