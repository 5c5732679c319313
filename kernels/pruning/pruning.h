// Masks of the largest elements of tensors: largest_mask() of quantize_math.h.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

// mask, uint8 [n], becomes 1 for the ceil(keep * n) largest of x, fp32, bf16 or fp16, else 0. Equal
// numbers are kept in order of position; NaN is the smallest. ConfigError for a share beyond 0 to
// 1, InternalError for operands that do not fit.
void largest_mask(Stream& stream, const Tensor& x, double keep, Tensor& mask);

}  // namespace ds::kernels
