// The CUDA half of kernels/gemm/matmul. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/matmul/matmul.h"

namespace ds::kernels::detail {

void matmul_cuda(Stream& stream, const MatmulArgs& args);

}  // namespace ds::kernels::detail
