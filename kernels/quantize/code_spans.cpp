// Loops of compression for each instruction set; what is left of a span is done number by number.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize/code_spans.cpp"
#include "kernels/quantize/code_spans.h"

#include <hwy/foreach_target.h>

#include <array>

#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/quantize/onebit_math.h"
#include "kernels/quantize/quantize_math.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

using Floats8 = hn::CappedTag<float, 8>;  // those of one byte of signs, or a part of them
using Mask8 = hn::Mask<Floats8>;

// Masks have their first lane in the lowest bit, signs in the highest.
constexpr std::array<uint8_t, 256> reversed_bytes() {
  std::array<uint8_t, 256> reversed{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      if ((byte >> bit & 1U) != 0) reversed[byte] |= static_cast<uint8_t>(128U >> bit);
    }
  }
  return reversed;
}
constexpr std::array<uint8_t, 256> kReversed = reversed_bytes();

// use(first number, its mask) for the numbers of one byte of bits; a mask is read from `bits`.
template <class Use>
HWY_INLINE void for_lanes_of_byte(uint8_t sign_byte, const Use& use) {
  const Floats8 d;
  const size_t lanes = hn::Lanes(d);
  const uint8_t bits = kReversed[sign_byte];
  for (size_t lane = 0; lane < 8; lane += lanes) {
    const uint8_t here[8] = {static_cast<uint8_t>(bits >> lane)};  // reads up to 8 bytes
    use(lane, hn::LoadMaskBits(d, here));
  }
}

// Whole vectors where they are whole bytes of signs, else parts of a byte.
using SignFloats = hn::CappedTag<float, 16>;
constexpr size_t kSignStep = hn::MaxLanes(SignFloats()) < 8 ? 8 : hn::MaxLanes(SignFloats());

// kSignStep signs.
HWY_INLINE void pack_step(hn::Vec<SignFloats> positive, hn::Vec<SignFloats> negative, float* error,
                          uint8_t* packed) {
  const SignFloats d;
  const size_t lanes = hn::Lanes(d);
  unsigned bits = 0;
  for (size_t lane = 0; lane < kSignStep; lane += lanes) {
    const auto v = hn::LoadU(d, error + lane);
    const auto is_positive = hn::Ge(v, hn::Zero(d));
    uint8_t here[8] = {};  // writes up to 8 bytes
    hn::StoreMaskBits(d, is_positive, here);
    bits |= (static_cast<unsigned>(here[0]) | static_cast<unsigned>(here[1]) << 8) << lane;
    hn::StoreU(hn::Sub(v, hn::IfThenElse(is_positive, positive, negative)), d, error + lane);
  }
  for (size_t byte = 0; byte < kSignStep / 8; ++byte)
    packed[byte] = kReversed[bits >> 8 * byte & 255];
}

HWY_INLINE float smallest(F32Vector v) {
  HWY_ALIGN float lanes[hn::MaxLanes(Lanes())];
  hn::Store(v, Lanes(), lanes);
  float least = lanes[0];
  for (int64_t i = 1; i < lane_count(); ++i) least = lower(least, lanes[i]);
  return least;
}

HWY_INLINE float largest(F32Vector v) {
  HWY_ALIGN float lanes[hn::MaxLanes(Lanes())];
  hn::Store(v, Lanes(), lanes);
  float most = lanes[0];
  for (int64_t i = 1; i < lane_count(); ++i) most = higher(most, lanes[i]);
  return most;
}

}  // namespace

// Lanes are added in the order of block_sum() (kernels/reduce/reduce_cpu.cpp): one sum in as many
// lanes as a vector has numbers of fp64.
double add_and_square_loop(std::span<const float> values, std::span<float> error) {
  const Lanes d;
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, hn::ScalableTag<double>> dh;
  HWY_ALIGN float lanes[hn::MaxLanes(Lanes())];
  auto total = hn::Zero(dd);
  const auto count = narrow<int64_t>(error.size());
  for (int64_t i = 0; i < count; i += lane_count()) {
    const int64_t here = at_most_lanes(count - i);
    float* const at = error.data() + i;
    const auto sum = hn::Add(get(d, at, here), get(d, values.data() + i, here));
    put(sum, d, at, here);
    hn::Store(sum, d, lanes);
    for (size_t k = 0; k < hn::Lanes(d); k += hn::Lanes(dd)) {
      const auto v = hn::PromoteTo(dd, hn::Load(dh, lanes + k));
      total = hn::MulAdd(v, v, total);
    }
  }
  return hn::GetLane(hn::SumOfLanes(dd, total));
}

void pack_signs_loop(float scale, std::span<float> error, std::span<uint8_t> packed) {
  const SignFloats d;
  const auto positive = hn::Set(d, scale), negative = hn::Set(d, -scale);
  const size_t whole = error.size() / kSignStep * kSignStep;
  for (size_t i = 0; i < whole; i += kSignStep) {
    pack_step(positive, negative, error.data() + i, packed.data() + i / 8);
  }
  pack_signs(scale, error.subspan(whole), packed.subspan(whole / 8));
}

void expand_signs_loop(std::span<const uint8_t> packed, float scale, std::span<float> out) {
  const Floats8 d;
  const auto positive = hn::Set(d, scale), negative = hn::Set(d, -scale);
  const size_t whole = out.size() / 8;
  for (size_t i = 0; i < whole; ++i) {
    for_lanes_of_byte(packed[i], [&](size_t lane, Mask8 mask) HWY_ATTR {
      hn::StoreU(hn::IfThenElse(mask, positive, negative), d, out.data() + 8 * i + lane);
    });
  }
  expand_signs(packed.subspan(whole), scale, out.subspan(8 * whole));
}

void add_signs_loop(std::span<const uint8_t> packed, float scale, std::span<float> out) {
  const Floats8 d;
  const auto positive = hn::Set(d, scale), negative = hn::Set(d, -scale);
  const size_t whole = out.size() / 8;
  for (size_t i = 0; i < whole; ++i) {
    for_lanes_of_byte(packed[i], [&](size_t lane, Mask8 mask) HWY_ATTR {
      float* const at = out.data() + 8 * i + lane;
      hn::StoreU(hn::Add(hn::LoadU(d, at), hn::IfThenElse(mask, positive, negative)), d, at);
    });
  }
  add_signs(packed.subspan(whole), scale, out.subspan(8 * whole));
}

Range range_loop(std::span<const float> x) {
  constexpr size_t kChains = 4;  // of comparisons, each of which waits for the one before it
  const Lanes d;
  const auto lanes = to_size(lane_count());
  const size_t whole = x.size() / lanes * lanes;
  F32Vector low[kChains], high[kChains];
  for (size_t c = 0; c < kChains; ++c) {
    low[c] = hn::Set(d, Range{}.low);
    high[c] = hn::Set(d, Range{}.high);
  }
  const auto widen = [&](size_t chain, size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x.data() + i);
    const auto is_nan = hn::IsNaN(v);
    low[chain] = hn::IfThenElse(hn::Or(hn::Lt(v, low[chain]), is_nan), v, low[chain]);
    high[chain] = hn::IfThenElse(hn::Or(hn::Gt(v, high[chain]), is_nan), v, high[chain]);
  };
  size_t i = 0;
  for (; i + kChains * lanes <= whole; i += kChains * lanes) {
    for (size_t c = 0; c < kChains; ++c) widen(c, i + c * lanes);
  }
  for (; i < whole; i += lanes) widen(0, i);
  Range range = range_of(x.subspan(whole));
  for (size_t c = 0; c < kChains; ++c) {
    range = joined({smallest(low[c]), largest(high[c])}, range);
  }
  return range;
}

void int_codes_loop(std::span<const float> x, int bits, IntScale scale, std::span<int8_t> q) {
  const Lanes d;
  const hn::Rebind<int8_t, Lanes> d8;
  const auto step = to_size(lane_count());
  const auto half = static_cast<float>(1 << (bits - 1));
  const auto least = hn::Set(d, -half), most = hn::Set(d, half - 1);
  const auto factor = hn::Set(d, scale.scale), offset = hn::Set(d, scale.offset);
  const size_t whole = x.size() / step * step;
  for (size_t i = 0; i < whole; i += step) {
    const auto exact = hn::Add(hn::Mul(hn::LoadU(d, x.data() + i), factor), offset);
    // Before rounding: numbers beyond the integers of 32 bits do not reach it.
    const auto bounded = hn::IfThenElse(hn::Lt(exact, least), least,
                                        hn::IfThenElse(hn::Gt(exact, most), most, exact));
    const auto number = hn::IfThenElseZero(hn::Eq(exact, exact), bounded);
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(number)), d8, q.data() + i);
  }
  quantize_int_part(x.subspan(whole), bits, scale, q.subspan(whole));
}

void int_values_loop(std::span<const int8_t> q, IntScale scale, std::span<float> out) {
  const Lanes d;
  const hn::Rebind<int32_t, Lanes> d32;
  const hn::Rebind<int8_t, Lanes> d8;
  const auto step = to_size(lane_count());
  const auto divisor = hn::Set(d, scale.scale), offset = hn::Set(d, scale.offset);
  const size_t whole = q.size() / step * step;
  for (size_t i = 0; i < whole; i += step) {
    const auto code = hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, q.data() + i)));
    hn::StoreU(hn::Div(hn::Sub(code, offset), divisor), d, out.data() + i);
  }
  dequantize_int(q.subspan(whole), scale, out.subspan(whole));
}

// Two codes are one number of 16 bits, the first its low byte. Where vectors have one lane, there
// is none to take apart.
void pack_nibbles_loop(std::span<const int8_t> q, std::span<int8_t> packed) {
  size_t whole = 0;  // bytes
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const size_t step = hn::Lanes(d);
  whole = q.size() / 2 / step * step;
  const auto* const from = reinterpret_cast<const uint8_t*>(q.data());
  auto* const to = reinterpret_cast<uint8_t*>(packed.data());
  const hn::Repartition<uint8_t, decltype(d)> bytes;
  const auto low = hn::Set(d, 15);
  for (size_t i = 0; i < whole; i += step) {
    const auto both = hn::BitCast(d, hn::LoadU(bytes, from + 2 * i));
    const auto byte =
        hn::Or(hn::ShiftLeft<4>(hn::And(both, low)), hn::And(hn::ShiftRight<8>(both), low));
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(hn::RebindToSigned<decltype(d)>(), byte)), d8, to + i);
  }
#endif
  pack_nibbles(q.subspan(2 * whole), packed.subspan(whole));
}

void unpack_nibbles_loop(std::span<const int8_t> packed, std::span<int8_t> q) {
  const auto* const from = reinterpret_cast<const uint8_t*>(packed.data());
  size_t whole = 0;  // bytes
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const hn::Repartition<int8_t, decltype(d)> codes;
  const size_t step = hn::Lanes(d);
  whole = q.size() / 2 / step * step;
  const auto eight = hn::Set(codes, 8);
  for (size_t i = 0; i < whole; i += step) {
    const auto byte = hn::PromoteTo(d, hn::LoadU(d8, from + i));
    const auto both =
        hn::Or(hn::ShiftRight<4>(byte), hn::ShiftLeft<8>(hn::And(byte, hn::Set(d, 15))));
    const auto value = hn::Sub(hn::Xor(hn::BitCast(codes, both), eight), eight);
    hn::StoreU(value, codes, q.data() + 2 * i);
  }
#endif
  for (size_t i = 2 * whole; i < q.size(); ++i) {
    q[i] = static_cast<int8_t>(signed_nibble(from[i / 2], i % 2 == 0));
  }
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(add_and_square_loop);
DS_SIMD_EXPORT(pack_signs_loop);
DS_SIMD_EXPORT(expand_signs_loop);
DS_SIMD_EXPORT(add_signs_loop);
DS_SIMD_EXPORT(range_loop);
DS_SIMD_EXPORT(int_codes_loop);
DS_SIMD_EXPORT(int_values_loop);
DS_SIMD_EXPORT(pack_nibbles_loop);
DS_SIMD_EXPORT(unpack_nibbles_loop);

}  // namespace

namespace detail {

double add_and_square_span(std::span<const float> values, std::span<float> error) {
  return DS_SIMD(add_and_square_loop)(values, error);
}
void pack_signs_span(float scale, std::span<float> error, std::span<uint8_t> packed) {
  DS_SIMD(pack_signs_loop)(scale, error, packed);
}
void expand_signs_span(std::span<const uint8_t> packed, float scale, std::span<float> out) {
  DS_SIMD(expand_signs_loop)(packed, scale, out);
}
void add_signs_span(std::span<const uint8_t> packed, float scale, std::span<float> out) {
  DS_SIMD(add_signs_loop)(packed, scale, out);
}
Range range_span(std::span<const float> x) { return DS_SIMD(range_loop)(x); }
void int_codes_span(std::span<const float> x, int bits, IntScale scale, std::span<int8_t> q) {
  DS_SIMD(int_codes_loop)(x, bits, scale, q);
}
void int_values_span(std::span<const int8_t> q, IntScale scale, std::span<float> out) {
  DS_SIMD(int_values_loop)(q, scale, out);
}
void pack_nibbles_span(std::span<const int8_t> q, std::span<int8_t> packed) {
  DS_SIMD(pack_nibbles_loop)(q, packed);
}
void unpack_nibbles_span(std::span<const int8_t> packed, std::span<int8_t> q) {
  DS_SIMD(unpack_nibbles_loop)(packed, q);
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
