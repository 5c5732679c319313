// The CPU half of kernels/elementwise. Operands have been checked.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels::detail {

void fill_cpu(Stream& stream, Tensor& y, float value);
void add_cpu(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y);
void accumulate_cpu(Stream& stream, const Tensor& x, Tensor& y);
void scale_cpu(Stream& stream, float factor, Tensor& y);
void softcap_cpu(Stream& stream, float c, Tensor& y);
void cast_cpu(Stream& stream, const Tensor& x, Tensor& y);

}  // namespace ds::kernels::detail
