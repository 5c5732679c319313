// Reductions. Sums run in a fixed order that does not depend on the number of threads.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"
#include "kernels/front/write.h"
#include "kernels/reduce/sum_block.h"

namespace ds::kernels {

// total, an fp64 number on the stream's device, = (or +=) the sum of x divided by `divisor`, or the
// sum of squares of x. In fp64, over blocks of kSumBlock elements whose sums are added in order.
void sum_into(Stream& stream, const Tensor& x, double divisor, Write write, Tensor total);
void sum_of_squares_into(Stream& stream, const Tensor& x, Write write, Tensor total);
// total = the largest of x, fp32 and finite; minus infinity of no numbers.
void largest_into(Stream& stream, const Tensor& x, Tensor total);
// total += each of the fp64 numbers, in their order.
void add_in_order(Stream& stream, const Tensor& numbers, Tensor total);
bool all_finite(Stream& stream, const Tensor& x);
// y [C] = (or +=) column sums of x [N, C], accumulated in fp32; for bias gradients.
void column_sum(Stream& stream, const Tensor& x, Write write, Tensor& y);
void column_sum(Stream& stream, const MatrixView& x, Write write, Tensor& y);

}  // namespace ds::kernels
