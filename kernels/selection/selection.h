// Elements by their places: taken out of a tensor, put back into one; what says which columns of a
// matrix to take, the sums of their squares; and sums of what is not taken.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

// places: int32 [n], each less than the numel of the tensor that they are of.
void take(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to);
// Places differ from each other; what lies elsewhere in `to` stays.
void put(Stream& stream, const Tensor& from, const Tensor& places, Tensor& to);

void add_scaled(Stream& stream, float factor, const Tensor& x, Tensor& y);  // y += factor * x, fp32

// x: elements [first, first + numel) of a matrix with so many columns, row by row.
struct MatrixRange {
  int64_t first = 0;
  int64_t numel = 0;
  int64_t columns = 0;
};
// Rows whose squares are added up first; then these sums are, in their order. All in fp64.
inline constexpr int64_t kRowsOfSum = 256;
int64_t groups_of_rows(const MatrixRange& range);
// totals, fp64 [columns], = the sums of squares of the elements of x in each column. `parts`: room
// for groups_of_rows() * columns numbers in fp64.
void column_squares(Stream& stream, const Tensor& x, const MatrixRange& range, Tensor& parts,
                    Tensor& totals);

}  // namespace ds::kernels
