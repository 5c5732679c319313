// The CPU half of kernels/selection. Operands have been checked.
#pragma once

#include "kernels/selection/selection.h"

namespace ds::kernels::detail {

void take_cpu(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to);
void put_cpu(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to);
void add_scaled_cpu(Stream& stream, float factor, const Tensor& x, Tensor& y);
void column_squares_cpu(Stream& stream, const Tensor& x, const MatrixRange& range, Tensor& parts,
                        Tensor& totals);

}  // namespace ds::kernels::detail
