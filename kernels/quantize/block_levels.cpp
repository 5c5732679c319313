// See block_levels.h.
#include "kernels/quantize/block_levels.h"

#include <array>
#include <limits>

namespace ds::kernels {
namespace {

constexpr std::array<float, 16> kNormalQuantiles{
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

// float8_e4m3fn: a sign, 4 bits of exponent, 3 of mantissa; no infinities, and one NaN of each sign.
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
      return code < kNormalQuantiles.size() ? kNormalQuantiles[code] : 0.0F;
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

constexpr BlockLevels kNf4 = levels_of(BlockTable::kNf4), kInt8 = levels_of(BlockTable::kInt8),
                      kFp8 = levels_of(BlockTable::kFp8);

}  // namespace

const BlockLevels& block_levels(BlockTable table) {
  switch (table) {
    case BlockTable::kNf4:
      return kNf4;
    case BlockTable::kInt8:
      return kInt8;
    case BlockTable::kFp8:
      return kFp8;
  }
  return kNf4;
}

}  // namespace ds::kernels
