// Frozen weights in blocks on the CPU: codes become levels by tables that stay in the first cache
// or in registers, and weights become codes by the search of block_levels.h, a vector at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize/block_codes_cpu.cpp"
#include "kernels/quantize/block_codes_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <span>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/elementwise/spans.h"

HWY_BEFORE_NAMESPACE();
namespace ds::kernels::HWY_NAMESPACE {
namespace {

// y = level * scale, for the codes of a part of a block, each in a byte.
template <class T>
HWY_INLINE void put_levels(const float* level, const uint8_t* codes, float scale, int64_t count,
                           T* y) {
  const Lanes d;
  const hn::RebindToSigned<Lanes> d32;
  const hn::Rebind<uint8_t, Lanes> d8;
  const auto factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lane_count() <= count; i += lane_count()) {
    const auto index = hn::PromoteTo(d32, hn::LoadU(d8, codes + i));
    store(hn::Mul(hn::GatherIndex(d, level, index), factor), d, y + i);
  }
  for (; i < count; ++i) y[i] = static_cast<T>(level[codes[i]] * scale);
}

// y = level * scale, for the `count` half bytes of a block, an even number. The 16 products become
// a table for each of their bytes, in which instructions look up 16 at a time.
template <class T>
HWY_INLINE void put_halves(const float* level, const uint8_t* packed, float scale, int64_t count,
                           T* y) {
  HWY_ALIGN T products[16];
  for (size_t i = 0; i < 16; ++i) products[i] = static_cast<T>(level[i] * scale);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  using Octets = hn::FixedTag<uint8_t, 16>;
  const Octets d;
  hn::Vec<Octets> first, second, third, fourth;
  if constexpr (sizeof(T) == 2) {
    hn::LoadInterleaved2(d, reinterpret_cast<const uint8_t*>(products), first, second);
  } else {
    hn::LoadInterleaved4(d, reinterpret_cast<const uint8_t*>(products), first, second, third,
                         fourth);
  }
  const auto put_16 = [&](hn::Vec<Octets> codes, T* to) HWY_ATTR {
    auto* const octets = reinterpret_cast<uint8_t*>(to);
    const auto low = hn::TableLookupBytes(first, codes);
    const auto next = hn::TableLookupBytes(second, codes);
    if constexpr (sizeof(T) == 2) {
      hn::StoreInterleaved2(low, next, d, octets);
    } else {
      hn::StoreInterleaved4(low, next, hn::TableLookupBytes(third, codes),
                            hn::TableLookupBytes(fourth, codes), d, octets);
    }
  };
  for (; i + 32 <= count; i += 32) {
    const auto both = hn::LoadU(d, packed + i / 2);
    const auto high = hn::ShiftRight<4>(both), low = hn::And(both, hn::Set(d, 15));
    put_16(hn::InterleaveLower(d, high, low), y + i);
    put_16(hn::InterleaveUpper(d, high, low), y + i + 16);
  }
#endif
  for (; i < count; ++i) y[i] = products[nibble(packed[i / 2], i % 2 == 0)];
}

}  // namespace

// Blocks [begin, end); y is where the first weight of all lies.
template <class T>
HWY_INLINE void unpack_typed(const PackedBlocks& from, int64_t begin, int64_t end, T* y) {
  const float* const level = block_levels(from.table).level;
  const int64_t size = from.block;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * size;
    const float scale = from.scale_of(block);
    if (from.has_halves()) {
      put_halves(level, from.codes + first / 2, scale, size, y + first);
    } else {
      put_levels(level, from.codes + first, scale, size, y + first);
    }
  }
}

// The bits of the largest magnitude, which have the order of magnitudes, NaN above all.
int32_t largest_bits_loop(std::span<const float> weights) {
  const Lanes d;
  const hn::RebindToSigned<Lanes> d32;
  const auto lanes = to_size(lane_count());
  const size_t whole = weights.size() / lanes * lanes;
  auto most = hn::Zero(d32);
  for (size_t i = 0; i < whole; i += lanes) {
    most = hn::Max(most, hn::BitCast(d32, hn::Abs(hn::LoadU(d, weights.data() + i))));
  }
  int32_t bits = hn::GetLane(hn::MaxOfLanes(d32, most));
  for (size_t i = whole; i < weights.size(); ++i) {
    bits = HWY_MAX(bits, std::bit_cast<int32_t>(std::fabs(weights[i])));
  }
  return bits;
}

// The codes of some weights of a block, each in a byte: level_rank() in every lane.
void codes_loop(const BlockLevels& levels, float reciprocal, std::span<const float> weights,
                uint8_t* codes) {
  const Lanes d;
  const hn::RebindToSigned<Lanes> d32;
  const hn::Rebind<uint8_t, Lanes> d8;
  const auto factor = hn::Set(d, reciprocal), least = hn::Set(d, -1.0F), most = hn::Set(d, 1.0F);
  const auto lanes = to_size(lane_count());
  const size_t whole = weights.size() / lanes * lanes;
  for (size_t i = 0; i < whole; i += lanes) {
    const auto exact = hn::Mul(hn::LoadU(d, weights.data() + i), factor);
    const auto x = hn::IfThenElse(hn::Lt(exact, least), least,
                                  hn::IfThenElse(hn::Gt(exact, most), most, exact));
    auto rank = hn::Zero(d32);
    for (int step = levels.first_step; step > 0; step /= 2) {
      const auto stays = hn::Ge(hn::GatherIndex(d, levels.midpoint + step - 1, rank), x);
      rank = hn::Add(rank, hn::IfThenZeroElse(hn::RebindMask(d32, stays), hn::Set(d32, step)));
    }
    hn::StoreU(hn::DemoteTo(d8, rank), d8, codes + i);
  }
  for (size_t i = whole; i < weights.size(); ++i) {
    const float x = over_absmax(weights[i], reciprocal);
    codes[i] = static_cast<uint8_t>(level_rank(levels.midpoint, levels.first_step, x));
  }
  for (size_t i = 0; i < weights.size(); ++i) codes[i] = levels.code[codes[i]];
}

void unpack_range(const PackedBlocks& from, const Tensor& weights, int64_t begin, int64_t end) {
  on_float(weights.dtype(), [&]<class T>() { unpack_typed(from, begin, end, weights.data<T>()); });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

DS_SIMD_EXPORT(codes_loop);
DS_SIMD_EXPORT(largest_bits_loop);
DS_SIMD_EXPORT(unpack_range);

constexpr int64_t kChunk = 4096;  // even: a byte of two codes has both of its numbers

void read(const Tensor& weights, int64_t first, std::span<float> to) {
  const auto* const from = static_cast<const std::byte*>(weights.address()) +
                           first * static_cast<int64_t>(size_of(weights.dtype()));
  detail::cast_span(from, weights.dtype(), to.data(), DType::kF32, narrow<int64_t>(to.size()));
}

// use(first, numbers) for the chunks of a block.
template <class Use>
void for_chunks(const Tensor& weights, int64_t begin, int64_t end, const Use& use) {
  std::array<float, kChunk> numbers;
  for (int64_t first = begin; first < end; first += kChunk) {
    const std::span<float> chunk(numbers.data(), to_size(std::min(kChunk, end - first)));
    read(weights, first, chunk);
    use(first, std::span<const float>(chunk));
  }
}

void write_codes(const PackedBlocks& to, float absmax, int64_t first,
                 std::span<const float> weights) {
  std::array<uint8_t, kChunk> room;
  uint8_t* const codes = to.has_halves() ? room.data() : to.codes + first;
  DS_SIMD(codes_loop)(block_levels(to.table), reciprocal_absmax(absmax), weights, codes);
  if (!to.has_halves()) return;
  uint8_t* const halves = to.codes + first / 2;
  for (size_t i = 0; i < weights.size(); i += 2) {
    halves[i / 2] = packed_nibbles(codes[i], codes[i + 1]);
  }
}

// Returns whether its scale fits.
bool pack_block(const Tensor& weights, const PackedBlocks& to, int64_t block) {
  const int64_t begin = block * to.block, end = begin + to.block;
  int32_t largest = 0;
  for_chunks(weights, begin, end, [&](int64_t, std::span<const float> chunk) {
    largest = std::max(largest, DS_SIMD(largest_bits_loop)(chunk));
  });
  const float absmax = usable_absmax(std::bit_cast<float>(largest));
  for_chunks(weights, begin, end, [&](int64_t first, std::span<const float> chunk) {
    write_codes(to, absmax, first, chunk);
  });
  to.set_scale(block, absmax);
  return scale_fits(to.scale, absmax);
}

int64_t blocks_at_once(const PackedBlocks& all) { return std::max<int64_t>(kChunk / all.block, 1); }

}  // namespace

namespace detail {

void pack_blocks_cpu(Stream& stream, const Tensor& weights, const PackedBlocks& to,
                     const Tensor& unfit) {
  const std::atomic_ref<int32_t> count(*unfit.data<int32_t>());
  stream.pool().parallel_for(to.blocks, blocks_at_once(to), [&](int64_t begin, int64_t end) {
    int32_t here = 0;
    for (int64_t block = begin; block < end; ++block) {
      if (!pack_block(weights, to, block)) ++here;
    }
    count.fetch_add(here, std::memory_order_relaxed);
  });
}

void unpack_blocks_cpu(Stream& stream, const PackedBlocks& from, const Tensor& weights) {
  stream.pool().parallel_for(from.blocks, blocks_at_once(from), [&](int64_t begin, int64_t end) {
    DS_SIMD(unpack_range)(from, weights, begin, end);
  });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
