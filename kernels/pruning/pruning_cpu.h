// The CPU half of kernels/quantize/pruning. Operands have been checked, and there are some.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels::detail {

void largest_mask_cpu(const Tensor& x, int64_t kept, const Tensor& mask);

}  // namespace ds::kernels::detail
