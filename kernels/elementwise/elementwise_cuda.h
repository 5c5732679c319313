// The CUDA half of kernels/elementwise. Operands have been checked; pointers are of the device.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels::detail {

void fill_cuda(Stream& stream, Tensor& y, float value);
void add_cuda(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y);
void accumulate_cuda(Stream& stream, const Tensor& x, Tensor& y);
void scale_cuda(Stream& stream, float factor, Tensor& y);
void softcap_cuda(Stream& stream, float c, Tensor& y);
void cast_cuda(Stream& stream, const Tensor& x, Tensor& y);

}  // namespace ds::kernels::detail
