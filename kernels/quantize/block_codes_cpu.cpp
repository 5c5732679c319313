// Frozen weights in blocks on the CPU. Codes become levels by a table that stays in the first
// cache, a vector of them at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize/block_codes_cpu.cpp"
#include "kernels/quantize/block_codes_cpu.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "core/device/dispatch.h"
#include "core/values/index.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd.inl"
#include "kernels/elementwise/spans.h"
#include "kernels/quantize/code_spans.h"

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

// Numbers whose codes are taken out of half bytes at a time: few enough to stay where they are.
constexpr int64_t kHalves = 256;

// Two codes are one number of 16 bits, the first its low byte, except where vectors have one lane.
HWY_INLINE void take_halves(const uint8_t* packed, int64_t count, uint8_t* codes) {
  int64_t i = 0;  // bytes
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<uint16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const hn::Repartition<uint8_t, decltype(d)> bytes;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  for (; i + step <= count / 2; i += step) {
    const auto byte = hn::PromoteTo(d, hn::LoadU(d8, packed + i));
    const auto both =
        hn::Or(hn::ShiftRight<4>(byte), hn::ShiftLeft<8>(hn::And(byte, hn::Set(d, 15))));
    hn::StoreU(hn::BitCast(bytes, both), bytes, codes + 2 * i);
  }
#endif
  for (; i < count / 2; ++i) {
    codes[2 * i] = static_cast<uint8_t>(packed[i] >> 4);
    codes[2 * i + 1] = static_cast<uint8_t>(packed[i] & 15);
  }
}

}  // namespace

// Blocks [begin, end); y is where the first weight of all lies.
template <class T>
HWY_INLINE void unpack_typed(const detail::PackedBlocks& from, int64_t begin, int64_t end, T* y) {
  const float* const level = block_levels(from.how.table).level;
  const int64_t size = from.how.block;
  uint8_t room[kHalves];
  for (int64_t block = begin; block < end; ++block) {
    const float scale = from.scale_of(block);
    if (!from.has_halves()) {
      put_levels(level, from.codes + block * size, scale, size, y + block * size);
      continue;
    }
    for (int64_t first = block * size; first < (block + 1) * size; first += kHalves) {
      const int64_t count = HWY_MIN(kHalves, (block + 1) * size - first);
      take_halves(from.codes + first / 2, count, room);
      put_levels(level, room, scale, count, y + first);
    }
  }
}

void unpack_range(const detail::PackedBlocks& from, const Tensor& weights, int64_t begin,
                  int64_t end) {
  on_float(weights.dtype(), [&]<class T>() { unpack_typed(from, begin, end, weights.data<T>()); });
}

}  // namespace ds::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::kernels {
namespace {

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

void write_codes(const detail::PackedBlocks& to, float absmax, int64_t first,
                 std::span<const float> weights) {
  const BlockLevels& levels = block_levels(to.how.table);
  const float reciprocal = reciprocal_absmax(absmax);
  const auto code = [&](size_t i) {
    const float x = over_absmax(weights[i], reciprocal);
    return levels.code[level_rank(levels.midpoint, levels.first_step, x)];
  };
  if (!to.has_halves()) {
    for (size_t i = 0; i < weights.size(); ++i) to.codes[to_size(first) + i] = code(i);
    return;
  }
  for (size_t i = 0; i < weights.size(); i += 2) {
    to.codes[(to_size(first) + i) / 2] = packed_nibbles(code(i), code(i + 1));
  }
}

// Returns whether its scale fits.
bool pack_block(const Tensor& weights, const detail::PackedBlocks& to, int64_t block) {
  const int64_t begin = block * to.how.block, end = begin + to.how.block;
  Range range;
  for_chunks(weights, begin, end, [&](int64_t, std::span<const float> chunk) {
    range = joined(range, detail::range_span(chunk));
  });
  const float absmax = usable_absmax(largest_magnitude(range));
  for_chunks(weights, begin, end, [&](int64_t first, std::span<const float> chunk) {
    write_codes(to, absmax, first, chunk);
  });
  to.set_scale(block, absmax);
  return scale_fits(to.how.scale, absmax);
}

int64_t blocks_at_once(const BlockCode& how) { return std::max<int64_t>(kChunk / how.block, 1); }

}  // namespace

namespace detail {

void pack_blocks_cpu(Stream& stream, const Tensor& weights, const PackedBlocks& to,
                     const Tensor& unfit) {
  const std::atomic_ref<int32_t> count(*unfit.data<int32_t>());
  stream.pool().parallel_for(to.blocks, blocks_at_once(to.how), [&](int64_t begin, int64_t end) {
    int32_t here = 0;
    for (int64_t block = begin; block < end; ++block) {
      if (!pack_block(weights, to, block)) ++here;
    }
    count.fetch_add(here, std::memory_order_relaxed);
  });
}

void unpack_blocks_cpu(Stream& stream, const PackedBlocks& from, const Tensor& weights) {
  stream.pool().parallel_for(from.blocks, blocks_at_once(from.how),
                             [&](int64_t begin, int64_t end) {
                               DS_SIMD(unpack_range)(from, weights, begin, end);
                             });
}

}  // namespace detail
}  // namespace ds::kernels
#endif  // HWY_ONCE
