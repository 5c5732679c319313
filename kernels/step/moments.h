// Optimizer state in fewer bits than fp32 (pure): bf16, and 8 bits as OCP's MXFP8 has them, numbers
// of 4 exponent and 3 mantissa bits with one power of two for each 32. Both are rounded up or down
// at random, in proportion to the distance: rounded to nearest, an average that moves by a
// thousandth a step would never move. The noise is a hash of the number itself and of the
// step, so that neither the cut of a shard nor the number of threads changes a bit. What is
// representable stays as it is: state that is read and written back has the same bits.
#pragma once

#include <bit>
#include <cstdint>

#include "core/dtype.h"

namespace ds::kernels {

// Roots, in 8 bits, are for what is never negative and spans the square of a gradient's range.
enum class MomentFormat : uint8_t { kFp32, kBf16, kMxFp8, kMxFp8Root };

inline constexpr int64_t kMomentBlock = 32;  // numbers with one scale

constexpr uint32_t rounding_noise(float value, uint32_t salt) {
  uint32_t hash = std::bit_cast<uint32_t>(value) * 0x9e3779b1U + salt;
  hash ^= hash >> 15;
  hash *= 0x2c1b3c6dU;
  hash ^= hash >> 13;
  return hash * 0x297a2d39U;
}
constexpr uint32_t noise_salt(int64_t step, int slot) {
  return (static_cast<uint32_t>(step) * 4U + static_cast<uint32_t>(slot)) * 0xc2b2ae3dU;
}

constexpr uint16_t bf16_bits(float value, uint32_t noise) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
  return static_cast<uint16_t>((bits + (finite ? noise >> 16 : 0U)) >> 16);
}

// The exponent of a block whose largest magnitude has these bits, biased as in fp32: 448, the
// largest number of 8 bits, times the scale is at least that.
constexpr uint8_t scale_of(uint32_t largest) {
  constexpr uint32_t kLargestMantissa = 0x600000U;  // of 448 = 1.75 * 2^8
  const uint32_t exponent = (largest >> 23) + ((largest & 0x7fffffU) > kLargestMantissa ? 1U : 0U);
  return static_cast<uint8_t>(exponent > 9U ? (exponent < 262U ? exponent - 8U : 254U) : 1U);
}
constexpr float power_of(uint8_t scale) {
  return std::bit_cast<float>(static_cast<uint32_t>(scale) << 23);
}
// 1 / power_of(scale), which is a subnormal number only for scales that no block has.
constexpr float inverse_power_of(uint8_t scale) {
  return std::bit_cast<float>((254U - static_cast<uint32_t>(scale)) << 23);
}

constexpr float from_mxfp8(uint8_t code, float power) {
  const uint32_t magnitude = code & 0x7fU;
  const float normal = std::bit_cast<float>((magnitude << 20) + (120U << 23));
  const float value = magnitude < 8U ? static_cast<float>(magnitude) * 0x1p-9F : normal;
  return (code & 0x80U) != 0 ? -value * power : value * power;
}
constexpr uint8_t to_mxfp8(float value, float inverse_power, uint32_t noise) {
  const float scaled = value * inverse_power;
  const auto bits = std::bit_cast<uint32_t>(scaled);
  const uint32_t magnitude = bits & 0x7fffffffU;
  const uint32_t normal = ((magnitude + (noise >> 12)) >> 20) - (120U << 3);
  const float small = std::bit_cast<float>(magnitude) * 0x1p9F;
  // Of what is not small the conversion is not looked at, but must be one.
  const auto subnormal = static_cast<int32_t>((small < 8.0F ? small : 0.0F) +
                                              static_cast<float>(noise >> 16) * 0x1p-16F);
  const uint32_t code = magnitude < 0x3c800000U ? static_cast<uint32_t>(subnormal) : normal;
  return static_cast<uint8_t>((code < 0x7eU ? code : 0x7eU) | ((bits >> 24) & 0x80U));
}

}  // namespace ds::kernels
