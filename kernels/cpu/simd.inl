// Vectors over float, BF16 and F16 storage, always computed in fp32, for the target that the
// including source is being compiled for. Rounding to 16 bits is to nearest even, NaN stays NaN:
// the same bits as the scalar types of core/values/dtype.h.
#if defined(DS_KERNELS_SIMD_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef DS_KERNELS_SIMD_INL
#undef DS_KERNELS_SIMD_INL
#else
#define DS_KERNELS_SIMD_INL
#endif

#include <hwy/highway.h>

#include <cstring>

#include "core/values/dtype.h"
#include "core/values/index.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<float>;
using F32Vector = hn::Vec<Lanes>;

HWY_INLINE int64_t lane_count() { return static_cast<int64_t>(hn::Lanes(Lanes())); }

// Half-precision conversions exist in hardware from AVX2 (F16C) and on arm64; Highway's emulation
// elsewhere does not keep infinities, which the loss scaler must see.
#undef DS_SIMD_HAS_F16
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
#define DS_SIMD_HAS_F16 1
#else
#define DS_SIMD_HAS_F16 0
#endif

// D: Lanes, or a shorter vector of floats.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}
HWY_INLINE void store(F32Vector v, Lanes d, float* p) { hn::StoreU(v, d, p); }

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const BF16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &p->bits))));
}

HWY_INLINE void store(F32Vector v, Lanes d, BF16* p) {
  const hn::Rebind<uint16_t, Lanes> d16;
  const hn::RebindToUnsigned<Lanes> d32;
  const hn::RebindToSigned<Lanes> di32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(d32, 0x00400000));
  const auto nan = hn::RebindMask(d32, hn::IsNaN(v));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, high)), d16, &p->bits);
  (void)d;
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const F16* p) {
#if DS_SIMD_HAS_F16
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(d16, &p->bits)));
#else
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = static_cast<float>(p[i]);
  return hn::Load(d, lanes);
#endif
}

HWY_INLINE void store(F32Vector v, Lanes d, F16* p) {
#if DS_SIMD_HAS_F16
  const hn::Rebind<uint16_t, Lanes> d16;
  const hn::Rebind<hwy::float16_t, Lanes> half;
  hn::StoreU(hn::BitCast(d16, hn::DemoteTo(half, v)), d16, &p->bits);
  (void)d;
#else
  HWY_ALIGN float lanes[hn::MaxLanes(Lanes())];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) p[i] = F16(lanes[i]);
#endif
}

// The first n < lane_count() elements; the other lanes are zero.
template <class T>
HWY_INLINE F32Vector load_n(Lanes d, const T* p, int64_t n) {
  HWY_ALIGN T buffer[hn::MaxLanes(Lanes())] = {};
  std::memcpy(buffer, p, to_size(n) * sizeof(T));
  return load(d, buffer);
}

template <class T>
HWY_INLINE void store_n(F32Vector v, Lanes d, T* p, int64_t n) {
  HWY_ALIGN T buffer[hn::MaxLanes(Lanes())];
  store(v, d, buffer);
  std::memcpy(p, buffer, to_size(n) * sizeof(T));
}

// The same for loops that run on to a shorter last vector: count <= lane_count().
template <class T>
HWY_INLINE F32Vector get(Lanes d, const T* p, int64_t count) {
  return HWY_LIKELY(count == lane_count()) ? load(d, p) : load_n(d, p, count);
}
template <class T>
HWY_INLINE void put(F32Vector v, Lanes d, T* p, int64_t count) {
  if (HWY_LIKELY(count == lane_count())) {
    store(v, d, p);
  } else {
    store_n(v, d, p, count);
  }
}
HWY_INLINE int64_t at_most_lanes(int64_t left) { return left < lane_count() ? left : lane_count(); }

HWY_INLINE float sum_lanes(Lanes d, F32Vector v) { return hn::GetLane(hn::SumOfLanes(d, v)); }
HWY_INLINE float max_lanes(Lanes d, F32Vector v) { return hn::GetLane(hn::MaxOfLanes(d, v)); }

// e^x to 2 ulp (Cody-Waite reduction by ln 2 in two parts, then a degree-6 polynomial); 0 below
// -87.3, infinity above 88.7; NaN stays NaN.
HWY_INLINE F32Vector exp(Lanes d, F32Vector x) {
  const hn::RebindToSigned<Lanes> di;
  const auto clamped = hn::Min(hn::Max(x, hn::Set(d, -87.5F)), hn::Set(d, 89.0F));
  const auto n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504F)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  auto p = hn::Set(d, 1.0F / 720);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5F));
  p = hn::MulAdd(p, hn::Mul(r, r), r);
  p = hn::Add(p, hn::Set(d, 1.0F));
  // Two factors of 2^(n/2), since n may be 128.
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const auto scale1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const auto scale2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  const auto y = hn::Mul(hn::Mul(p, scale1), scale2);
  const auto flushed = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3F)), y);
  return hn::IfThenElse(hn::IsNaN(x), x, flushed);
}

// tanh x to 3 ulp: near 0 a polynomial (Cephes' tanhf), else by e^2x.
HWY_INLINE F32Vector tanh(Lanes d, F32Vector x) {
  const auto square = hn::Mul(x, x);
  auto p = hn::Set(d, -5.70498872745e-3F);
  p = hn::MulAdd(p, square, hn::Set(d, 2.06390887954e-2F));
  p = hn::MulAdd(p, square, hn::Set(d, -5.37397155531e-2F));
  p = hn::MulAdd(p, square, hn::Set(d, 1.33314422036e-1F));
  p = hn::MulAdd(p, square, hn::Set(d, -3.33332819422e-1F));
  const auto near = hn::MulAdd(hn::Mul(p, square), x, x);
  const auto power = exp(d, hn::Add(hn::Abs(x), hn::Abs(x)));
  const auto one = hn::Set(d, 1.0F);
  const auto far = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(power, one)));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.625F)), near, hn::CopySign(far, x));
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
