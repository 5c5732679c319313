// The CPU half of kernels/reduce/dots.h. Operands have been checked.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"
#include "kernels/front/write.h"

namespace ds::kernels::detail {

void row_dots_cpu(Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
                  Tensor& out);
void column_dots_cpu(Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
                     Tensor& out);

}  // namespace ds::kernels::detail
