// The CPU half of kernels/quantize/signs. Operands have been checked.
#pragma once

#include "kernels/quantize/signs.h"

namespace ds::kernels::detail {

// error += values, both fp32; `squares`, fp64 [1], are those of what that makes, to the bit of
// sum_of_squares_into().
void add_and_square(Stream& stream, const Tensor& values, const Tensor& error,
                    const Tensor& squares);
// `squares`, fp64 [1], is that of args.error, to which the values have been added.
void compress_signs_cpu(Stream& stream, const Tensor& squares, const CompressSignsArgs& args);
void expand_signs_cpu(Stream& stream, const Tensor& signs, const Tensor& scale, const Tensor& y);
void add_signs_cpu(Stream& stream, const Tensor& signs, const Tensor& scale, const Tensor& y);

}  // namespace ds::kernels::detail
