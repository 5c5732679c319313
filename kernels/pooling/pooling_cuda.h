// The CUDA half of kernels/pooling. Operands have been checked; pointers are of the device.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels::detail {

void mean_rows_cuda(Stream& stream, const Tensor& x, const Tensor& ranges, int64_t length,
                    Tensor& y);
void mean_rows_backward_cuda(Stream& stream, const Tensor& dy, const Tensor& ranges, int64_t length,
                             Tensor& dx);

}  // namespace ds::kernels::detail
