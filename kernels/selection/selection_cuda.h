// The CUDA half of kernels/selection. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/selection/selection.h"

namespace ds::kernels::detail {

void take_cuda(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to);
void put_cuda(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to);
void add_scaled_cuda(Stream& stream, float factor, const Tensor& x, Tensor& y);
void column_squares_cuda(Stream& stream, const Tensor& x, const MatrixRange& range, Tensor& parts,
                         Tensor& totals);

}  // namespace ds::kernels::detail
