// Frozen weights in few bits: blocks of neighbouring weights, each with one scale, its absmax (see
// block_levels.h). Codes are made with absmax itself, so that they do not depend on how that is
// kept; arithmetic is fp32, and all devices give the same bits. What was unpacked in fp32 packs to
// the same bytes again. Operands that do not fit throw InternalError.
#pragma once

#include "core/device/tensor.h"
#include "kernels/quantize/block_levels.h"

namespace ds::kernels {

struct BlockCode {
  BlockTable table = BlockTable::kNf4;
  BlockScale scale = BlockScale::kFp32;
  int64_t block = 64;  // weights per scale: even

  void check() const;  // ConfigError
  // kNf4 has two codes in a byte, the first in the high half. `numel` is a multiple of block.
  int64_t code_bytes(int64_t numel) const { return table == BlockTable::kNf4 ? numel / 2 : numel; }
  int64_t scale_bytes(int64_t numel) const {
    return numel / block * (scale == BlockScale::kFp32 ? 4 : 1);
  }
  int64_t bytes(int64_t numel) const { return code_bytes(numel) + scale_bytes(numel); }
  bool operator==(const BlockCode&) const = default;
};

// weights: fp32, bf16 or fp16 [numel], a multiple of how.block. packed: uint8 [how.bytes(numel)],
// all codes, then all scales. To unfit, int32 [1], the number of blocks is added whose absmax is
// not finite or more than scales hold: an 8-bit scale is the largest there is then, one in fp32 the
// absmax as it is.
void pack_blocks(Stream& stream, const Tensor& weights, const BlockCode& how, const Tensor& packed,
                 const Tensor& unfit);
// weights = level * scale, rounded to their dtype.
void unpack_blocks(Stream& stream, const Tensor& packed, const BlockCode& how, Tensor& weights);

}  // namespace ds::kernels
