// Optimizer state in fewer bits than fp32 (pure): bf16, and 8 bits as OCP's MXFP8 has them, numbers
// of 4 exponent and 3 mantissa bits with one power of two for each 32. Both are rounded up or down
// at random, in proportion to the distance: rounded to nearest, an average that moves by a
// thousandth a step would never move. The noise is the number itself times an odd number of the
// step (multiplicative hashing, Dietzfelbinger et al. 1997), so that neither the cut of a shard nor
// the number of threads changes a bit. What is representable stays as it is: state that is read and
// written back has the same bits.
#pragma once

#include <bit>
#include <cstdint>

#include "core/values/dtype.h"

namespace ds::kernels {

// Roots, in 8 bits, are for what is never negative and spans the square of a gradient's range.
enum class MomentFormat : uint8_t { kFp32, kBf16, kMxFp8, kMxFp8Root };

inline constexpr int64_t kMomentBlock = 32;  // numbers with one scale

// Salts are odd, another for each step and slot, and spread over all of their 31 bits: noise is the
// upper part of one product.
constexpr uint32_t noise_salt(int64_t step, int slot) {
  constexpr uint32_t kBits = 0x7fffffffU;
  uint32_t hash = (static_cast<uint32_t>(step) * 4U + static_cast<uint32_t>(slot) + 1U) & kBits;
  hash = (hash * 0x1e3779b1U) & kBits;
  hash ^= hash >> 15;
  hash = (hash * 0x2c1b3c6dU) & kBits;
  hash ^= hash >> 13;
  hash = (hash * 0x297a2d39U) & kBits;
  hash ^= hash >> 15;
  return 2U * hash + 1U;
}
constexpr uint32_t kPackingSalt = noise_salt(0, 3);  // of what is no step
constexpr uint32_t rounding_noise(float value, uint32_t salt) {
  return std::bit_cast<uint32_t>(value) * salt;
}

constexpr uint16_t bf16_bits(float value, uint32_t noise) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool number = value == value;  // of NaN a carry would make a zero
  return static_cast<uint16_t>((bits + (number ? noise >> 16 : 0U)) >> 16);
}

// The exponent of a block whose largest magnitude has these bits, biased as in fp32: 448, the
// largest number of 8 bits, times the scale is at least that. It ends where 448 is still a number
// of fp32: what is larger, or no number, becomes 448. It begins where what is computed below is.
inline constexpr uint8_t kLeastScale = 9, kMostScale = 246;
inline constexpr uint32_t kMantissaToNext = 0x7fffffU - 0x600000U;  // beyond that of 1.75 * 2^8
constexpr uint8_t scale_of(uint32_t largest) {
  const uint32_t exponent = (largest + kMantissaToNext) >> 23;
  return static_cast<uint8_t>(exponent > kLeastScale + 8U
                                  ? (exponent < kMostScale + 8U ? exponent - 8U : kMostScale)
                                  : kLeastScale);
}
constexpr float power_of(uint8_t scale) {
  return std::bit_cast<float>(static_cast<uint32_t>(scale) << 23);
}
// 2^8 / power_of(scale): what to_mxfp8() multiplies by.
constexpr float inverse_power_of(uint8_t scale) {
  return std::bit_cast<float>((262U - static_cast<uint32_t>(scale)) << 23);
}

constexpr float from_mxfp8(uint8_t code, float power) {
  const uint32_t magnitude = code & 0x7fU;
  const float normal = std::bit_cast<float>((magnitude << 20) + (120U << 23));
  const float value = magnitude < 8U ? static_cast<float>(magnitude) * 0x1p-9F : normal;
  return (code & 0x80U) != 0 ? -value * power : value * power;
}

// Numbers as fp32 times 2^8, where the lowest bits of the exponent are those of 8 bits: the least
// normal one, and the largest.
inline constexpr float kLeastNormal = 0x1p+2F;
inline constexpr uint32_t kLargestBits = std::bit_cast<uint32_t>(448.0F * 0x1p8F);
inline constexpr int kDroppedBits = 20;                  // of fp32's mantissa
inline constexpr uint32_t kOctave = 8U << kDroppedBits;  // from a number to its double

// Normal numbers have the bits of fp32, but for the last 20, which noise rounds. Below, codes are
// even: there the bits of a sum with the least normal number are, one octave above. These are the
// larger ones of the two there, and nowhere else.
constexpr uint8_t to_mxfp8(float value, float inverse_power, uint32_t noise) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const float scaled = std::bit_cast<float>(bits & 0x7fffffffU) * inverse_power;
  const auto normal = std::bit_cast<uint32_t>(scaled);
  const uint32_t subnormal = std::bit_cast<uint32_t>(scaled + kLeastNormal) - kOctave;
  const uint32_t larger = normal > subnormal ? normal : subnormal;
  const uint32_t kept = larger < kLargestBits ? larger : kLargestBits;
  const uint32_t code = (kept + (noise >> 12)) >> kDroppedBits;
  return static_cast<uint8_t>((code & 0x7fU) | ((bits >> 24) & 0x80U));
}

}  // namespace ds::kernels
