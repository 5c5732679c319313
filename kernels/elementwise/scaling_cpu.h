// The CPU half of kernels/elementwise/scaling.h. Operands have been checked.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"

namespace ds::kernels::detail {

void scale_columns_cpu(Stream& stream, const MatrixView& x, const Tensor& factors,
                       const Tensor& bias, const MatrixView& y);
void over_roots_cpu(Stream& stream, const Tensor& x, const Tensor& squares, Tensor& y);

}  // namespace ds::kernels::detail
