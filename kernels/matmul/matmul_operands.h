// The product of views as one of raw memory. Internal to kernels/.
#pragma once

#include "kernels/matmul/gemm.h"
#include "kernels/matmul/matmul.h"

namespace ds::kernels::detail {

// The product that `args` ask for, wherever its operands lie.
Gemm gemm_of(const MatmulArgs& args);

}  // namespace ds::kernels::detail
