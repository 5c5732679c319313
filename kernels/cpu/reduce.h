// The CPU half of kernels/reduce. Operands have been checked.
#pragma once

#include "kernels/reduce.h"

namespace ds::kernels::detail {

void sum_into_cpu(Stream& stream, const Tensor& x, double divisor, Write write,
                  const Tensor& total);
void sum_of_squares_into_cpu(Stream& stream, const Tensor& x, Write write, const Tensor& total);
void largest_into_cpu(Stream& stream, const Tensor& x, const Tensor& total);
void add_in_order_cpu(const Tensor& numbers, const Tensor& total);
bool all_finite_cpu(Stream& stream, const Tensor& x);
void column_sum_cpu(Stream& stream, const MatrixView& x, Write write, Tensor& y);

}  // namespace ds::kernels::detail
