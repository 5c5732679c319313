// Products of two matrices of one shape, element by element, summed along rows or down columns: the
// norms of weights and what belongs to them (DoRA, arXiv 2402.09353). Sums run in fp32, in an order
// that depends on the shape and the dtypes alone.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/matrix_view.h"
#include "kernels/front/write.h"

namespace ds::kernels {

// out[i] = (or +=) sum_k a[i, k] b[i, k]. out is fp32 [rows] and lies apart from the operands,
// which may be one matrix: sums of squares.
void row_dots(Stream& stream, const MatrixView& a, const MatrixView& b, Write write, Tensor& out);
// out[j] = (or +=) sum_n a[n, j] b[n, j]. out [columns] is fp32, bf16 or fp16 and rounded once.
void column_dots(Stream& stream, const MatrixView& a, const MatrixView& b, Write write,
                 Tensor& out);

}  // namespace ds::kernels
