// What the halves of block_codes.h get of their front functions. Pointers are of the stream's
// device, and begin anywhere.
#pragma once

#include <cstdint>

#include "kernels/quantize/block_codes.h"

namespace ds::kernels::detail {

struct PackedBlocks {
  uint8_t* codes;
  uint8_t* scales;
  int64_t blocks;
  BlockCode how;

  constexpr bool has_halves() const { return how.table == BlockTable::kNf4; }
  constexpr int64_t numel() const { return blocks * how.block; }

  // Four bytes, the lowest first, or one.
  constexpr float scale_of(int64_t block) const {
    if (how.scale == BlockScale::kFp8) return scale_value(scales[block]);
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(scales[4 * block + i]) << 8 * i;
    return std::bit_cast<float>(bits);
  }
  constexpr void set_scale(int64_t block, float absmax) const {
    if (how.scale == BlockScale::kFp8) {
      scales[block] = saturated_scale_code(absmax);
      return;
    }
    const auto bits = std::bit_cast<uint32_t>(absmax);
    for (int i = 0; i < 4; ++i) scales[4 * block + i] = static_cast<uint8_t>(bits >> 8 * i);
  }
};

}  // namespace ds::kernels::detail
