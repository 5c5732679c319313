// Scaling by vectors: the columns of a matrix by a number each, and numbers by the roots of others.
// DoRA (arXiv 2402.09353) gives a linear layer's outputs their magnitudes so.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"

namespace ds::kernels {

// y[n, j] = x[n, j] factors[j] + bias[j], rounded once. factors is fp32, bias fp32, bf16 or fp16;
// either has an element a column, or is undefined: then it changes nothing. y may be x exactly;
// where it is not, they do not overlap, and their dtypes may differ.
void scale_columns(Stream& stream, const MatrixView& x, const Tensor& factors, const Tensor& bias,
                   const MatrixView& y);
// y[j] = x[j] / sqrt(squares[j]), as IEEE 754 has it: of squares that are 0, infinity or NaN.
// squares is fp32, y fp32 or of x's dtype. y may be either operand.
void over_roots(Stream& stream, const Tensor& x, const Tensor& squares, Tensor& y);

}  // namespace ds::kernels
