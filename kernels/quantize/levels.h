// What quantizers do to one number, and what they make of the numbers of a group (pure). One source
// for every device: plain functions of numbers, without containers and without a library. Rounding
// is half to even. A group with NaN or an infinity, or too wide for fp32, has the scale NaN and
// comes back as NaN from all forms: an overflow must not be lost on the way.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ds::kernels {

// a * b rounded by itself: compilers for GPUs make one operation of it and of a sum that follows.
constexpr float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

constexpr bool is_finite(float x) { return x - x == 0.0F; }
constexpr float finite_or_nan(float x) {
  return is_finite(x) ? x : std::numeric_limits<float>::quiet_NaN();
}
// NaN stays.
constexpr float clamped(float x, float least, float most) {
  return x < least ? least : (x > most ? most : x);
}

// Smallest and largest of some numbers; both are NaN as soon as one of them is.
struct Range {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();
};
constexpr float lower(float a, float b) { return b < a || b != b ? b : a; }
constexpr float higher(float a, float b) { return b > a || b != b ? b : a; }
constexpr Range joined(Range a, Range b) { return {lower(a.low, b.low), higher(a.high, b.high)}; }
constexpr float largest_magnitude(Range range) {
  return higher(std::fabs(range.low), std::fabs(range.high));
}

// Sum and number of the magnitudes that count, both in fp64.
struct Magnitudes {
  double sum = 0, count = 0;
};
constexpr Magnitudes joined(Magnitudes a, Magnitudes b) {
  return {a.sum + b.sum, a.count + b.count};
}
constexpr float kAllMagnitudes = -1;  // a threshold that all are above, NaN too
constexpr Magnitudes magnitude_above(float threshold, float x) {
  const float size = std::fabs(x);
  if (size <= threshold) return {};
  return {static_cast<double>(size), 1.0};
}

// Fake quantization ------------------------------------------------------------------------------
enum class QuantScheme : uint8_t { kSymmetric, kAsymmetric, kTernary, kBinary };

// Symmetric and asymmetric: clamp(round((x - zero) / scale + noise), least, most) * scale + zero;
// x itself where the scale is 0.
struct FakeScale {
  float scale, zero, least, most;
};
constexpr FakeScale fake_scale_of(QuantScheme scheme, int bits, Range range) {
  const auto q = static_cast<float>(1 << bits);
  if (scheme == QuantScheme::kSymmetric) {
    const float scale = finite_or_nan(2 * largest_magnitude(range) / q);
    return {scale, -0.0F, -q / 2, q / 2 - 1};  // adding -0 changes no number, not even -0
  }
  const float scale = finite_or_nan((range.high - range.low) / q);
  const float zero = scale == 0 ? 0.0F : product(std::nearbyint(range.low / scale), scale);
  return {scale, zero, 0.0F, q - 1};
}
constexpr float fake_quantized(const FakeScale& s, float x, float noise) {
  if (s.scale == 0) return x;
  const float level = std::nearbyint((x - s.zero) / s.scale + noise);
  return product(clamped(level, s.least, s.most), s.scale) + s.zero;
}

// Ternary and binary: the level with the sign of x where |x| is above the threshold, else 0.
struct FakeMagnitude {
  float threshold, level;
};
constexpr float mean_of(Magnitudes m) {
  return m.count > 0 ? finite_or_nan(static_cast<float>(m.sum / m.count)) : 0.0F;
}
// Returns the threshold of ternary, whose level is known when the magnitudes above it are.
constexpr float ternary_threshold(Magnitudes all) { return 0.7F * mean_of(all); }
constexpr FakeMagnitude ternary_of(float threshold, Magnitudes above) {
  return {threshold, is_finite(threshold) ? mean_of(above) : threshold};
}
constexpr FakeMagnitude binary_of(Magnitudes all) { return {0.0F, mean_of(all)}; }
constexpr float fake_quantized(const FakeMagnitude& m, float x) {
  if (!is_finite(m.level)) return m.level;
  return x > m.threshold ? m.level : (x < -m.threshold ? -m.level : 0.0F);
}

// `scale` of a group that is `width` wide: 1 where it is so narrow that there is none.
constexpr float usable_scale(float scale, float width) {
  if (!is_finite(width)) return std::numeric_limits<float>::quiet_NaN();
  return is_finite(scale) ? scale : 1.0F;
}

// The signed integers of communication ----------------------------------------------------------
enum class IntRange : uint8_t { kSymmetric, kAsymmetric };
struct IntScale {
  float scale = 1;  // q = clamp(round(x * scale + offset)); x is near (q - offset) / scale
  float offset = 0;
};
constexpr IntScale int_scale_of(IntRange kind, int bits, Range range) {
  const auto levels = static_cast<float>(1 << bits);
  if (kind == IntRange::kSymmetric) {
    const float width = 2 * largest_magnitude(range);
    return {usable_scale(levels / width, width), 0.0F};
  }
  const float width = range.high - range.low;
  const float scale = usable_scale(levels / width, width);
  return {scale, -levels / 2 - product(range.low, scale)};
}
constexpr int int_code(IntScale s, int bits, float x) {
  const auto half = static_cast<float>(1 << (bits - 1));
  const float level = clamped(std::nearbyint(product(x, s.scale) + s.offset), -half, half - 1);
  return level != level ? 0 : static_cast<int>(level);
}
constexpr float int_value(IntScale s, int code) {
  return (static_cast<float>(code) - s.offset) / s.scale;
}

// The unsigned integers of weights ---------------------------------------------------------------
struct GroupScale {
  float scale, min;
};
constexpr float top_level(int bits) { return static_cast<float>((1 << bits) - 1); }
// The reference multiplies by the rounded reciprocal; a quotient may differ in its last bit, which
// shows wherever q / scale and min cancel.
constexpr GroupScale group_scale_of(int bits, Range range) {
  const float width = range.high - range.low;
  return {usable_scale(top_level(bits) * (1 / width), width),
          is_finite(width) ? range.low + 0.0F : width};  // of both zeros, +0
}
constexpr int group_level(GroupScale s, int bits, float x) {
  const float level = std::nearbyint(clamped((x - s.min) * s.scale, 0.0F, top_level(bits)));
  return level != level ? 0 : static_cast<int>(level);
}
constexpr float group_value(GroupScale s, int level) {
  return static_cast<float>(level) / s.scale + s.min;
}

// Two codes of 4 bits in a byte, the first in the high half --------------------------------------
constexpr uint8_t packed_nibbles(int first, int second) {
  return static_cast<uint8_t>((first & 15) << 4 | (second & 15));
}
constexpr int nibble(uint8_t byte, bool is_first) { return is_first ? byte >> 4 : byte & 15; }
constexpr int signed_nibble(uint8_t byte, bool is_first) {
  return ((nibble(byte, is_first)) ^ 8) - 8;
}

// A key in the order of the numbers: both zeros have the same, NaN has the smallest.
constexpr uint32_t order_of(float x) {
  if (x != x) return 0;
  const auto bits = std::bit_cast<uint32_t>(x == 0 ? 0.0F : x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

// Signs ------------------------------------------------------------------------------------------
// norm2 / sqrt(n), of the sum of squares of n numbers.
constexpr float sign_scale(double squares, int64_t n) {
  if (n == 0) return 0;
  return static_cast<float>(std::sqrt(squares)) /
         static_cast<float>(std::sqrt(static_cast<double>(n)));
}

}  // namespace ds::kernels
