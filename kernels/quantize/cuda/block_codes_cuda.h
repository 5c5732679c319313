// The CUDA half of kernels/quantize/block_codes. Operands have been checked, and there are some.
#pragma once

#include "core/device/tensor.h"
#include "kernels/quantize/block_levels.h"

namespace ds::kernels::detail {

void pack_blocks_cuda(Stream& stream, const Tensor& weights, const PackedBlocks& to,
                      const Tensor& unfit);
void unpack_blocks_cuda(Stream& stream, const PackedBlocks& from, const Tensor& weights);

}  // namespace ds::kernels::detail
