// The CUDA half of kernels/quantize/signs. Operands have been checked.
#pragma once

#include "kernels/quantize/signs.h"

namespace ds::kernels::detail {

// `squares`, fp64 [1], is that of args.error, to which the values have been added.
void compress_signs_cuda(Stream& stream, const Tensor& squares, const CompressSignsArgs& args);
void expand_signs_cuda(Stream& stream, const Tensor& signs, const Tensor& scale, const Tensor& y);
void add_signs_cuda(Stream& stream, const Tensor& signs, const Tensor& scale, const Tensor& y);

}  // namespace ds::kernels::detail
