// The CPU half of kernels/gemm/matmul. Operands have been checked.
#pragma once

#include "kernels/matmul/matmul.h"

namespace ds::kernels::detail {

void matmul_cpu(Stream& stream, const MatmulArgs& args);

}  // namespace ds::kernels::detail
