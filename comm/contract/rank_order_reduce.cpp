#include "comm/contract/rank_order_reduce.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

// Compiled once per instruction set; the best that the CPU has is chosen at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/contract/rank_order_reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "core/values/index.h"
#include "kernels/cpu/simd.h"

HWY_BEFORE_NAMESPACE();
namespace ds::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

// Highway converts fp16 with truncation where the CPU has no instruction for it; there we round by
// hand, so that every instruction set gives the same bits.
constexpr bool kHardwareF16 = HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM;

HWY_INLINE FloatVec load(FloatTag tag, const float* from) { return hn::LoadU(tag, from); }

HWY_INLINE FloatVec load(FloatTag tag, const BF16* from) {
  const hn::Rebind<uint16_t, FloatTag> narrow;
  const hn::Rebind<uint32_t, FloatTag> wide;
  const auto bits = hn::LoadU(narrow, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(tag, hn::ShiftLeft<16>(hn::PromoteTo(wide, bits)));
}

HWY_INLINE FloatVec load(FloatTag tag, const F16* from) {
  if constexpr (kHardwareF16) {
    const hn::Rebind<hwy::float16_t, FloatTag> narrow;
    return hn::PromoteTo(tag, hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
  } else {
    HWY_ALIGN std::array<float, HWY_MAX_BYTES / sizeof(float)> lanes;
    for (size_t i = 0; i < hn::Lanes(tag); ++i) lanes[i] = static_cast<float>(from[i]);
    return hn::Load(tag, lanes.data());
  }
}

HWY_INLINE void store(FloatTag tag, FloatVec value, float* to) { hn::StoreU(value, tag, to); }

// Round to nearest even on the bits; a NaN keeps its sign and upper payload and becomes quiet.
HWY_INLINE void store(FloatTag tag, FloatVec value, BF16* to) {
  const hn::Rebind<uint16_t, FloatTag> narrow;
  const hn::Rebind<uint32_t, FloatTag> wide;
  const hn::Rebind<int32_t, FloatTag> signed_wide;
  const auto bits = hn::BitCast(wide, value);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(wide, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(wide, 0x7fffU))));
  const auto quiet = hn::Or(upper, hn::Set(wide, 0x40U));
  const auto is_nan = hn::RebindMask(wide, hn::IsNaN(value));
  const auto result = hn::IfThenElse(is_nan, quiet, rounded);
  hn::StoreU(hn::DemoteTo(narrow, hn::BitCast(signed_wide, result)), narrow,
             reinterpret_cast<uint16_t*>(to));
  (void)tag;
}

HWY_INLINE void store(FloatTag tag, FloatVec value, F16* to) {
  if constexpr (kHardwareF16) {
    const hn::Rebind<hwy::float16_t, FloatTag> narrow;
    hn::StoreU(hn::DemoteTo(narrow, value), narrow, reinterpret_cast<hwy::float16_t*>(to));
  } else {
    HWY_ALIGN std::array<float, HWY_MAX_BYTES / sizeof(float)> lanes;
    hn::Store(value, tag, lanes.data());
    for (size_t i = 0; i < hn::Lanes(tag); ++i) to[i] = F16(lanes[i]);
  }
}

template <ReduceOp op>
HWY_INLINE FloatVec combine(FloatVec a, FloatVec b) {
  if constexpr (op == ReduceOp::kSum || op == ReduceOp::kAverage) {
    return hn::Add(a, b);
  } else if constexpr (op == ReduceOp::kProduct) {
    return hn::Mul(a, b);
  } else {
    const FloatVec chosen = op == ReduceOp::kMin ? hn::Min(a, b) : hn::Max(a, b);
    return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, chosen));
  }
}

template <ReduceOp op>
HWY_INLINE FloatVec finish(FloatTag tag, FloatVec value, size_t ranks) {
  if constexpr (op == ReduceOp::kAverage) {
    return hn::Div(value, hn::Set(tag, static_cast<float>(ranks)));
  } else {
    return value;
  }
}

// kUnroll vectors at a time, from element `i` on.
template <size_t kUnroll, ReduceOp op, class In, class Out>
HWY_INLINE void reduce_vectors(const In* const* sources, size_t ranks, Out* target, size_t i) {
  const FloatTag tag;
  const size_t lanes = hn::Lanes(tag);
  FloatVec sum[kUnroll];
  for (size_t u = 0; u < kUnroll; ++u) sum[u] = load(tag, sources[0] + i + u * lanes);
  for (size_t r = 1; r < ranks; ++r) {
    for (size_t u = 0; u < kUnroll; ++u) {
      sum[u] = combine<op>(sum[u], load(tag, sources[r] + i + u * lanes));
    }
  }
  for (size_t u = 0; u < kUnroll; ++u) {
    store(tag, finish<op>(tag, sum[u], ranks), target + i + u * lanes);
  }
}

constexpr size_t kMaxRanksAtOnce = 1024;  // bounds the pointer table on the stack

template <ReduceOp op, class In, class Out>
void reduce_floats(const std::byte* const* raw_sources, size_t ranks, std::byte* raw_target,
                   size_t numel) {
  const In* sources[kMaxRanksAtOnce];
  for (size_t r = 0; r < ranks; ++r) sources[r] = reinterpret_cast<const In*>(raw_sources[r]);
  auto* target = reinterpret_cast<Out*>(raw_target);
  const size_t lanes = hn::Lanes(FloatTag());
  size_t i = 0;
  for (; i + 4 * lanes <= numel; i += 4 * lanes) {
    reduce_vectors<4, op>(sources, ranks, target, i);
  }
  for (; i + lanes <= numel; i += lanes) reduce_vectors<1, op>(sources, ranks, target, i);
  if (i == numel) return;
  // The tail takes the same instructions on padded copies, so that an element's bits do not depend
  // on where a chunk ended. One rank at a time: the padded sum of the ranks so far is source 0.
  constexpr size_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);
  const FloatTag tag;
  In padded[kMaxLanes] = {};
  Out result[kMaxLanes] = {};
  std::memcpy(padded, sources[0] + i, (numel - i) * sizeof(In));
  FloatVec sum = load(tag, padded);
  for (size_t r = 1; r < ranks; ++r) {
    std::memcpy(padded, sources[r] + i, (numel - i) * sizeof(In));
    sum = combine<op>(sum, load(tag, padded));
  }
  store(tag, finish<op>(tag, sum, ranks), result);
  std::memcpy(target + i, result, (numel - i) * sizeof(Out));
}

// fp64 and integers: plain loops that the compiler vectorises for this instruction set. Integers
// are combined as unsigned, which wraps instead of overflowing.
template <ReduceOp op, class T>
HWY_INLINE T combine_plain(T a, T b) {
  if constexpr (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a) return a;
      if (b != b) return b;
    }
    return op == ReduceOp::kMin ? std::min(a, b) : std::max(a, b);
  } else if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::kProduct ? a * b : a + b;
  } else {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(op == ReduceOp::kProduct ? x * y : x + y);
  }
}

template <ReduceOp op, class T>
void reduce_plain(const std::byte* const* raw_sources, size_t ranks, std::byte* raw_target,
                  size_t numel) {
  // 8- and 32-bit sums are kept in 64 bits, so that an average does not wrap on the way.
  using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  constexpr size_t kBlock = 512;
  Sum sum[kBlock];
  auto* target = reinterpret_cast<T*>(raw_target);
  for (size_t begin = 0; begin < numel; begin += kBlock) {
    const size_t count = std::min(kBlock, numel - begin);
    const T* first = reinterpret_cast<const T*>(raw_sources[0]) + begin;
    for (size_t i = 0; i < count; ++i) sum[i] = Sum{first[i]};
    for (size_t r = 1; r < ranks; ++r) {
      const T* source = reinterpret_cast<const T*>(raw_sources[r]) + begin;
      for (size_t i = 0; i < count; ++i) {
        sum[i] = combine_plain<op, Sum>(sum[i], static_cast<Sum>(source[i]));
      }
    }
    if constexpr (op == ReduceOp::kAverage) {
      for (size_t i = 0; i < count; ++i) sum[i] /= static_cast<Sum>(ranks);
    }
    for (size_t i = 0; i < count; ++i) target[begin + i] = static_cast<T>(sum[i]);
  }
}

template <ReduceOp op>
void reduce_with(const ReduceTypes& types, const std::byte* const* sources, size_t ranks,
                 std::byte* target, size_t numel) {
  const bool widened = types.out != types.in;
  switch (types.in) {
    case DType::kF32:
      return reduce_floats<op, float, float>(sources, ranks, target, numel);
    case DType::kBF16:
      return widened ? reduce_floats<op, BF16, float>(sources, ranks, target, numel)
                     : reduce_floats<op, BF16, BF16>(sources, ranks, target, numel);
    case DType::kF16:
      return widened ? reduce_floats<op, F16, float>(sources, ranks, target, numel)
                     : reduce_floats<op, F16, F16>(sources, ranks, target, numel);
    case DType::kF64:
      return reduce_plain<op, double>(sources, ranks, target, numel);
    case DType::kI32:
      return reduce_plain<op, int32_t>(sources, ranks, target, numel);
    case DType::kI64:
      return reduce_plain<op, int64_t>(sources, ranks, target, numel);
    case DType::kU8:
      return reduce_plain<op, uint8_t>(sources, ranks, target, numel);
    case DType::kI8:
      return reduce_plain<op, int8_t>(sources, ranks, target, numel);
  }
}

void reduce_block(const ReduceTypes& types, const std::byte* const* sources, size_t ranks,
                  std::byte* target, size_t numel) {
  switch (types.op) {
    case ReduceOp::kSum:
      return reduce_with<ReduceOp::kSum>(types, sources, ranks, target, numel);
    case ReduceOp::kAverage:
      return reduce_with<ReduceOp::kAverage>(types, sources, ranks, target, numel);
    case ReduceOp::kMin:
      return reduce_with<ReduceOp::kMin>(types, sources, ranks, target, numel);
    case ReduceOp::kMax:
      return reduce_with<ReduceOp::kMax>(types, sources, ranks, target, numel);
    case ReduceOp::kProduct:
      return reduce_with<ReduceOp::kProduct>(types, sources, ranks, target, numel);
  }
}

}  // namespace ds::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::detail {

DS_SIMD_EXPORT(reduce_block);

void check_reduce_types(const ReduceTypes& types) {
  const bool narrow = types.in == DType::kBF16 || types.in == DType::kF16;
  DS_CHECK(types.out == types.in || (narrow && types.out == DType::kF32),
           "reduce: {} into {}; expected equal dtypes, or fp32 from bf16 or fp16",
           name_of(types.in), name_of(types.out));
}

void reduce_in_rank_order(const ReduceTypes& types, std::span<const std::byte* const> sources,
                          std::span<std::byte* const> targets, int64_t numel) {
  constexpr size_t kMaxRanks = 1024;
  // A block's result is still in the first-level cache when it is copied to the other targets.
  constexpr int64_t kBlock = 2048;
  DS_CHECK(!sources.empty() && sources.size() <= kMaxRanks, "reduce: {} ranks, expected 1 to {}",
           sources.size(), kMaxRanks);
  const size_t in_size = size_of(types.in);
  const size_t out_size = size_of(types.out);
  const auto kernel = DS_SIMD(reduce_block);
  std::array<const std::byte*, kMaxRanks> from;
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    const auto count = to_size(std::min(kBlock, numel - begin));
    for (size_t r = 0; r < sources.size(); ++r) {
      from[r] = sources[r] + to_size(begin) * in_size;
    }
    std::byte* first = targets[0] + to_size(begin) * out_size;
    kernel(types, from.data(), sources.size(), first, count);
    for (std::byte* target : targets.subspan(1)) {
      std::memcpy(target + to_size(begin) * out_size, first, count * out_size);
    }
  }
}

void reduce_on_pool(const ReduceTypes& types, std::span<const std::byte* const> sources,
                    std::span<std::byte* const> targets, int64_t numel, Stream& stream) {
  constexpr int64_t kPieceUnit = 64;                   // pieces start on cache lines
  constexpr int64_t kWorthSharing = int64_t{1} << 18;  // elements: far above a wake-up's cost
  if (numel < kWorthSharing || stream.pool().threads() == 1) {
    reduce_in_rank_order(types, sources, targets, numel);
    return;
  }
  stream.pool().parallel_for(numel, kPieceUnit, [&](int64_t begin, int64_t end) {
    std::vector<const std::byte*> from(sources.begin(), sources.end());
    std::vector<std::byte*> to(targets.begin(), targets.end());
    for (auto& source : from) source += to_size(begin) * size_of(types.in);
    for (auto& target : to) target += to_size(begin) * size_of(types.out);
    reduce_in_rank_order(types, from, to, end - begin);
  });
}

}  // namespace ds::detail
#endif  // HWY_ONCE
