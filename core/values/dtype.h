// Element types of tensors, and the two 16-bit floats as plain C++ types with conversions to fp32.
// Arithmetic is done in fp32; these types only store.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ds {

enum class DType : uint8_t { kF32, kBF16, kF16, kF64, kI32, kI64, kU8, kI8 };

size_t size_of(DType dtype);               // bytes of one element
std::string_view name_of(DType dtype);     // "fp32", "bf16", "fp16", "fp64", "int32", ...
DType parse_dtype(std::string_view name);  // also "float32", "bfloat16", ...; throws ConfigError

struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  constexpr explicit BF16(float value);  // round to nearest even, NaN stays NaN
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

struct F16 {
  uint16_t bits = 0;
  F16() = default;
  constexpr explicit F16(float value);  // round to nearest even, overflow to infinity
  constexpr explicit operator float() const;
};

// Conversions in kernels are the GPU's own instructions and have the same bits, but that a NaN
// loses its sign and its payload there.
constexpr BF16::BF16(float value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return;
  }
#endif
  const auto u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffffU) > 0x7f800000U) {
    bits = static_cast<uint16_t>((u >> 16) | 0x0040U);
  } else {
    bits = static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
}

constexpr F16::F16(float value) {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return;
  }
#endif
  const auto u = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (u >> 16) & 0x8000U;
  const uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    bits = static_cast<uint16_t>(sign | 0x7e00U);
  } else if (magnitude >= 0x477ff000U) {  // 65520 and above round to infinity
    bits = static_cast<uint16_t>(sign | 0x7c00U);
  } else if (magnitude < 0x38800000U) {  // subnormal: let the FPU round at 2^-24
    const float scaled = std::bit_cast<float>(magnitude) + 0.5F;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - 0x3f000000U));
  } else {
    const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
    bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
  }
}

constexpr F16::operator float() const {
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    float value = 0;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
#endif
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) {
    return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
  }
  if (magnitude < 0x400U) {
    const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
}

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct dtype_of<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct dtype_of<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct dtype_of<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct dtype_of<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct dtype_of<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct dtype_of<int8_t> {
  static constexpr DType value = DType::kI8;
};

}  // namespace ds
