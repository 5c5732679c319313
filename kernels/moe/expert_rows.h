// Rows of tokens to their experts and back: what an expert works on lies in one piece, in the order
// of kernels/moe/expert_order.
//
//   there: rows[i] = x[token of order[i]]          (times the weight of that choice)
//   back:  y[n] = sum over the token's choices j, in their order, of rows[place[n, j]]
//                                                  (times weights[n, j])
//
// Without weights each is the gradient of the other; with them the gradient of the way back is the
// way there, and dweights[n, j] = dy[n] . rows[place[n, j]]. Sums are in fp32.
#pragma once

#include "kernels/moe/expert_rows_operands.h"

namespace ds::kernels {

// x: [N, columns]; order: int32 [M], numbers n * k + j of choices, and -1 for rows that become 0;
// weights: fp32 [N, k], or undefined; rows: [M, columns] of the dtype of x. M may be less than all
// choices where it is known that fewer have a place.
void gather_expert_rows(Stream& stream, const RowsThere& args);

// place: int32 [N, k], -1 for choices that add nothing. The CPU throws where a place is not among
// the rows; a CUDA device adds nothing and says DeviceFlag::kPlaceOutsideRows.
void return_expert_rows(Stream& stream, const RowsBack& args);

// The gradient of the weights of return_expert_rows(): `y` of `args` is its gradient here, which is
// read, and `weights`, fp32 [N, k], receive theirs; 0 for choices that added nothing.
void expert_row_dots(Stream& stream, const RowsBack& args);

}  // namespace ds::kernels
