// The CUDA half of kernels/reduce. Operands have been checked; pointers are of the device.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"
#include "kernels/front/write.h"
#include "kernels/reduce/sum_block.h"

namespace ds::kernels::detail {

void sum_into_cuda(Stream& stream, const Tensor& x, double divisor, Write write,
                   const Tensor& total);
void sum_of_squares_into_cuda(Stream& stream, const Tensor& x, Write write, const Tensor& total);
void largest_into_cuda(Stream& stream, const Tensor& x, const Tensor& total);
void add_in_order_cuda(Stream& stream, const Tensor& numbers, const Tensor& total);
bool all_finite_cuda(Stream& stream, const Tensor& x);  // waits for the stream
// The scratch memory that column_sum_cuda() takes.
Tensor column_sum_scratch(Stream& stream, const MatrixView& x);
void column_sum_cuda(Stream& stream, const MatrixView& x, Write write, Tensor& y);

}  // namespace ds::kernels::detail
