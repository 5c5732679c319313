// State in 8 bits (kernels/optimizer/moments.h) in vectors, a block at a time: the bits of its
// formulas. Included once per target by files of Highway's foreach_target.

#include "kernels/cpu/simd.inl"

#if defined(DS_KERNELS_CPU_STEP_MXFP8_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_KERNELS_CPU_STEP_MXFP8_INL
#undef DS_KERNELS_CPU_STEP_MXFP8_INL
#else
#define DS_KERNELS_CPU_STEP_MXFP8_INL
#endif

#include <algorithm>
#include <bit>

#include "kernels/optimizer/moments.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {

// The 4 bits of exponent are those of fp16 but for the bias: from there on the processor converts,
// subnormal numbers too.
HWY_INLINE void read_block(const uint8_t* codes, uint8_t scale, float* to) {
#if DS_SIMD_HAS_F16
  const Lanes d;
  const hn::RebindToUnsigned<Lanes> d32;
  const hn::Rebind<int8_t, Lanes> d8;
  const hn::Rebind<int16_t, Lanes> d16;
  const hn::Rebind<hwy::float16_t, Lanes> half;
  constexpr uint32_t kBiases = 15 - 7;  // of fp16 and of 8 bits
  const auto power = hn::BitCast(d, hn::Set(d32, (scale + kBiases) << 23));
  const auto* const from = reinterpret_cast<const int8_t*>(codes);
  for (size_t i = 0; i < kMomentBlock; i += hn::Lanes(d)) {
    const auto wide = hn::ShiftLeft<7>(hn::PromoteTo(d16, hn::LoadU(d8, from + i)));
    // The sign came twice, and is no bit of the exponent.
    const auto bits = hn::AndNot(hn::Set(d16, 0x4000), wide);
    hn::StoreU(hn::Mul(hn::PromoteTo(d, hn::BitCast(half, bits)), power), d, to + i);
  }
#else
  const float power = power_of(scale);
  for (int64_t i = 0; i < kMomentBlock; ++i) to[i] = from_mxfp8(codes[i], power);
#endif
}

// kSigned, here and below: whether there may be negative numbers. Of the magnitudes of a block the
// largest in each of four lanes.
template <bool kSigned>
HWY_INLINE void find_largest(const float* from, uint32_t* four) {
  constexpr uint32_t kMagnitude = kSigned ? 0x7fffffffU : 0xffffffffU;
#if HWY_TARGET == HWY_SCALAR
  std::fill(four, four + 4, 0U);
  for (int64_t i = 0; i < kMomentBlock; ++i) {
    four[i % 4] = std::max(four[i % 4], std::bit_cast<uint32_t>(from[i]) & kMagnitude);
  }
#else
  const hn::RebindToUnsigned<Lanes> d32;
  const auto bits = [&](size_t at) HWY_ATTR {
    const auto all = hn::BitCast(d32, hn::LoadU(Lanes(), from + at));
    return kSigned ? hn::And(all, hn::Set(d32, kMagnitude)) : all;
  };
  auto most = bits(0);
  for (size_t i = hn::Lanes(d32); i < kMomentBlock; i += hn::Lanes(d32)) {
    most = hn::Max(most, bits(i));
  }
  const auto store = [&](auto whole, auto v, const auto& again) HWY_ATTR {
    if constexpr (hn::MaxLanes(decltype(whole)()) == 4) {
      hn::StoreU(v, whole, four);
    } else {
      const hn::Half<decltype(whole)> half;
      again(half, hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), again);
    }
  };
  store(d32, most, store);
#endif
}

// Scales and their inverses from what find_largest() has found, of `blocks`, a multiple of 16.
// Returns whether there are numbers that no scale reaches.
HWY_INLINE bool find_scales(const uint32_t* fours, int64_t blocks, uint8_t* scales,
                            float* inverses) {
  const Lanes d;
  const hn::RebindToUnsigned<Lanes> d32;
  const hn::Rebind<uint8_t, Lanes> d8;
  auto largest = hn::Zero(d32);
  for (int64_t block = 0; block < blocks; block += lane_count()) {
    hn::Vec<decltype(d32)> a, b, c, e;
    hn::LoadInterleaved4(d32, fours + 4 * block, a, b, c, e);
    const auto most = hn::Max(hn::Max(a, b), hn::Max(c, e));
    largest = hn::Max(largest, most);
    const auto exponent = hn::ShiftRight<23>(hn::Add(most, hn::Set(d32, kMantissaToNext)));
    const auto scale = hn::Sub(
        hn::Min(hn::Max(exponent, hn::Set(d32, kLeastScale + 8U)), hn::Set(d32, kMostScale + 8U)),
        hn::Set(d32, 8U));
    hn::StoreU(hn::TruncateTo(d8, scale), d8, scales + block);
    const auto inverse = hn::ShiftLeft<23>(hn::Sub(hn::Set(d32, 262U), scale));
    hn::StoreU(hn::BitCast(d, inverse), d, inverses + block);
  }
  return scale_of(hn::GetLane(hn::MaxOfLanes(d32, largest))) == kMostScale;
}

// `scale` is of a block without numbers that it does not reach, so that none has to be bounded.
template <bool kSigned>
HWY_INLINE void write_block(const float* from, float inverse_power, uint32_t salt, uint8_t* codes) {
  const Lanes d;
  const hn::RebindToUnsigned<Lanes> d32;
  const hn::Rebind<uint8_t, Lanes> d8;
  const auto inverse = hn::Set(d, inverse_power);
  for (size_t i = 0; i < kMomentBlock; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(d32, hn::LoadU(d, from + i));
    const auto size = kSigned ? hn::And(bits, hn::Set(d32, 0x7fffffffU)) : bits;
    const auto scaled = hn::Mul(hn::BitCast(d, size), inverse);
    const auto subnormal =
        hn::Sub(hn::BitCast(d32, hn::Add(scaled, hn::Set(d, kLeastNormal))), hn::Set(d32, kOctave));
    const auto noise = hn::ShiftRight<12>(hn::Mul(bits, hn::Set(d32, salt)));
    const auto kept = hn::Max(hn::BitCast(d32, scaled), subnormal);
    auto code = hn::ShiftRight<kDroppedBits>(hn::Add(kept, noise));
    if constexpr (kSigned) {
      code = hn::OrAnd(code, hn::ShiftRight<24>(bits), hn::Set(d32, 0x80U));
    }
    hn::StoreU(hn::TruncateTo(d8, code), d8, codes + i);
  }
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
