// The mean of the rows of each sample, as a head that scores a whole text by all of it reads them.
#pragma once

#include <cstdint>

#include "core/device/tensor.h"

namespace ds::kernels {

// x, y [N, C] of one float dtype, N = samples * length; ranges int32 [samples, length, 2], the rows
// [begin, end) of its sample that a row goes with, of which the first row's counts here. The first
// row of each sample in y is the mean of those rows of x, summed in fp32 in their order and rounded
// once; no row at all gives zeros, as do the other rows of y, which nobody scores.
void mean_rows(Stream& stream, const Tensor& x, const Tensor& ranges, int64_t length, Tensor& y);
// dx of the rows in the range is the gradient of the sample's first row over their number, and of
// the others zeros. Gradients dy of other rows count for nothing.
void mean_rows_backward(Stream& stream, const Tensor& dy, const Tensor& ranges, int64_t length,
                        Tensor& dx);

}  // namespace ds::kernels
