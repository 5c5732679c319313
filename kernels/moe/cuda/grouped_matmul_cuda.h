// The CUDA half of kernels/moe/grouped_matmul. Operands have been checked, but for the numbers
// in them.
#pragma once

#include "kernels/moe/grouped_matmul_operands.h"

namespace ds::kernels::detail {

void grouped_matmul_cuda(Stream& stream, const GroupedMatmulArgs& args);
void grouped_matmul_weights_cuda(Stream& stream, const GroupedMatmulWeightsArgs& args);

}  // namespace ds::kernels::detail
