// Streaming operations over whole tensors. Operands have equal numel; dtypes may differ where
// noted.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

void fill(Stream& stream, Tensor& y, float value);
void add(Stream& stream, const Tensor& a, const Tensor& b, Tensor& y);  // y = a + b; may alias
void accumulate(Stream& stream, const Tensor& x, Tensor& y);            // y += x; dtypes may differ
void scale(Stream& stream, float factor, Tensor& y);                    // y *= factor
// y = c tanh(y / c), c > 0 (Gemma 2, arXiv 2408.00118).
void softcap(Stream& stream, float c, Tensor& y);
void cast(Stream& stream, const Tensor& x, Tensor& y);  // copy, dtypes may differ

}  // namespace ds::kernels
