// Frozen weights in blocks (pure): a block keeps its largest magnitude, absmax, and of each weight
// the code of the level that is nearest to weight / absmax. One source for every device, as
// levels.h is. NF4 and its rounding are bitsandbytes' to the bit (QLoRA, arXiv 2305.14314); a block
// whose absmax is below 1e-38 is one of zeros here, so that what is unpacked packs to the same
// bytes again.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/quantize/levels.h"

namespace ds::kernels {

// The levels, all in [-1, 1], and the byte or half byte that is the code of each:
//   kNf4   16 quantiles of the normal distribution; the code is the rank
//   kInt8  k / 127, k = -127..127; the code is k in two's complement
//   kFp8   the finite numbers of float8_e4m3fn over 448; the code is their bits, of both zeros +0's
enum class BlockTable : uint8_t { kNf4, kInt8, kFp8 };
// How absmax is kept: kFp8 is that of scale_code().
enum class BlockScale : uint8_t { kFp32, kFp8 };

// Levels of a table, from the lowest up.
struct BlockLevels {
  float midpoint[255];  // between the levels of ranks i and i + 1; infinite above the last
  uint8_t code[256];    // of a rank; above the last one, that of the last
  float level[256];     // of a code; those that are no codes have what the formula makes of them
  int first_step;       // of the search: half of the ranks
};

namespace detail {

inline constexpr float kNormalQuantiles[16]{
    -1.0F,
    -0.6961928009986877F,
    -0.5250730514526367F,
    -0.39491748809814453F,
    -0.28444138169288635F,
    -0.18477343022823334F,
    -0.09105003625154495F,
    0.0F,
    0.07958029955625534F,
    0.16093020141124725F,
    0.24611230194568634F,
    0.33791524171829224F,
    0.44070982933044434F,
    0.5626170039176941F,
    0.7229568362236023F,
    1.0F,
};

// float8_e4m3fn has a sign, 4 bits of exponent, 3 of mantissa, no infinities, and NaN for 0x7f.
constexpr float fp8_number(uint32_t code) {
  const uint32_t exponent = code >> 3 & 15U, mantissa = code & 7U;
  const float sign = code < 128 ? 1.0F : -1.0F;
  if (exponent == 0) return sign * static_cast<float>(mantissa) * 0x1p-9F;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  return sign * std::bit_cast<float>((exponent + 120U) << 23 | mantissa << 20);
}

constexpr float level_of(BlockTable table, uint32_t code) {
  switch (table) {
    case BlockTable::kNf4:
      return code < 16 ? kNormalQuantiles[code] : 0.0F;
    case BlockTable::kInt8:
      return static_cast<float>(static_cast<int8_t>(code)) / 127.0F;
    case BlockTable::kFp8:
      return fp8_number(code) / 448.0F;
  }
  return 0.0F;
}

constexpr uint32_t rank_count(BlockTable table) {
  return table == BlockTable::kNf4 ? 16 : (table == BlockTable::kInt8 ? 255 : 253);
}

// Negative numbers of fp8 fall as their bits rise, from -448 (0xfe) to the smallest (0x81).
constexpr uint32_t code_of(BlockTable table, uint32_t rank) {
  switch (table) {
    case BlockTable::kNf4:
      return rank;
    case BlockTable::kInt8:
      return (rank + 129U) & 255U;
    case BlockTable::kFp8:
      return rank < 126 ? 0xfeU - rank : rank - 126U;
  }
  return 0;
}

constexpr BlockLevels levels_of(BlockTable table) {
  BlockLevels levels{};
  const uint32_t last = rank_count(table) - 1;
  levels.first_step = table == BlockTable::kNf4 ? 8 : 128;
  for (uint32_t code = 0; code < 256; ++code) levels.level[code] = level_of(table, code);
  for (uint32_t rank = 0; rank < 256; ++rank) {
    levels.code[rank] = static_cast<uint8_t>(code_of(table, rank < last ? rank : last));
  }
  for (uint32_t rank = 0; rank < 255; ++rank) {
    const float low = levels.level[levels.code[rank]], high = levels.level[levels.code[rank + 1]];
    levels.midpoint[rank] = rank < last ? (low + high) / 2 : std::numeric_limits<float>::infinity();
  }
  return levels;
}

inline constexpr BlockLevels kNf4Levels = levels_of(BlockTable::kNf4),
                             kInt8Levels = levels_of(BlockTable::kInt8),
                             kFp8Levels = levels_of(BlockTable::kFp8);

}  // namespace detail

constexpr const BlockLevels& block_levels(BlockTable table) {
  switch (table) {
    case BlockTable::kNf4:
      return detail::kNf4Levels;
    case BlockTable::kInt8:
      return detail::kInt8Levels;
    case BlockTable::kFp8:
      return detail::kFp8Levels;
  }
  return detail::kNf4Levels;
}

// The rank of the nearest level, the lower one at a midpoint: the number of midpoints below x. NaN,
// which is what an infinite weight is over an infinite absmax, is above all.
constexpr int level_rank(const float* midpoint, int first_step, float x) {
  int rank = 0;
  for (int step = first_step; step > 0; step /= 2) {
    if (!(midpoint[rank + step - 1] >= x)) rank += step;
  }
  return rank;
}

// absmax as blocks have it: nothing below 1e-38, where its reciprocal ends, and one NaN.
constexpr float usable_absmax(float absmax) {
  if (absmax != absmax) return std::numeric_limits<float>::quiet_NaN();
  return absmax < 1e-38F ? 0.0F : absmax;
}
constexpr float reciprocal_absmax(float absmax) { return absmax == 0 ? 0.0F : 1.0F / absmax; }
constexpr float over_absmax(float weight, float reciprocal) {
  return clamped(product(weight, reciprocal), -1.0F, 1.0F);
}

// Scales in 8 bits: 4 of an exponent, 4 of a mantissa, no sign, in the order of their values.
//   exponent 0        mantissa * 2^-13
//   exponent 1 to 15  (1 + mantissa / 16) * 2^(exponent - 10)
// so from 2^-13, by steps of a sixteenth from 2^-9 on, to 62 = 2^5 * (1 + 15/16).
constexpr int kMostScaleCode = 255;
constexpr float scale_value(uint8_t code) {
  const auto mantissa = static_cast<uint32_t>(code & 15);
  const auto exponent = static_cast<uint32_t>(code >> 4);
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-13F;
  return std::bit_cast<float>((exponent + 117U) << 23 | mantissa << 19);
}
// The nearest one, half to even, of an absmax that is usable; 0 is that of 0 alone. What would be
// above the most is beyond what scales hold, as an infinity and NaN are.
constexpr int64_t scale_code(float absmax) {
  if (absmax == 0) return 0;
  if (absmax < 0x1p-9F) {
    const auto steps = static_cast<int64_t>(std::nearbyint(absmax * 0x1p13F));
    return steps < 1 ? 1 : steps;
  }
  const auto bits = std::bit_cast<uint32_t>(absmax);
  const uint32_t rounded = (bits + 0x3ffffU + (bits >> 19 & 1U)) >> 19;
  return int64_t{rounded} - (int64_t{117} << 4);
}
// Whether scales hold it; of the others kFp8 keeps the largest, kFp32 what they are.
constexpr bool scale_fits(BlockScale scale, float absmax) {
  return scale == BlockScale::kFp32 ? is_finite(absmax) : scale_code(absmax) <= kMostScaleCode;
}
constexpr uint8_t saturated_scale_code(float absmax) {
  const int64_t code = scale_code(absmax);
  return static_cast<uint8_t>(code < kMostScaleCode ? code : kMostScaleCode);
}

// Codes and scales in memory of the device that works on them. They begin anywhere.
struct PackedBlocks {
  uint8_t* codes;
  uint8_t* scales;
  int64_t blocks;
  int64_t block;  // weights of one, an even number
  BlockTable table;
  BlockScale scale;

  constexpr bool has_halves() const { return table == BlockTable::kNf4; }
  constexpr int64_t numel() const { return blocks * block; }

  // Four bytes, the lowest first, or one.
  constexpr float scale_of(int64_t index) const {
    if (scale == BlockScale::kFp8) return scale_value(scales[index]);
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(scales[4 * index + i]) << 8 * i;
    return std::bit_cast<float>(bits);
  }
  constexpr void set_scale(int64_t index, float absmax) const {
    if (scale == BlockScale::kFp8) {
      scales[index] = saturated_scale_code(absmax);
      return;
    }
    const auto bits = std::bit_cast<uint32_t>(absmax);
    for (int i = 0; i < 4; ++i) scales[4 * index + i] = static_cast<uint8_t>(bits >> 8 * i);
  }
};

}  // namespace ds::kernels
