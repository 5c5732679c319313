// The CUDA half of kernels/rope. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/rotary/rope.h"

namespace ds::kernels::detail {

void rope_cuda(Stream& stream, const AttentionShape& shape, const RotaryTable& table,
               const RowPositions& positions, Rotation rotation, Tensor& qkv);

}  // namespace ds::kernels::detail
