// What products by expert are told, see grouped_matmul.h.
#pragma once

#include "core/device/tensor.h"
#include "kernels/front/write.h"

namespace ds::kernels {

struct GroupedMatmulArgs {
  Tensor rows;        // [M, K]
  Tensor weights;     // [experts, K, N], or [experts, N, K] when transposed; dtype of the rows
  Tensor offsets;     // int32 [experts + 1], of which the last is at most M
  int64_t depth = 0;  // K
  Transpose transpose_weights = Transpose::kNo;
  Tensor out;  // receives, [M, N]; fp32, or the dtype of the rows
};

struct GroupedMatmulWeightsArgs {
  Tensor a;        // [M, A]
  Tensor b;        // [M, B], dtype of a
  Tensor offsets;  // int32 [experts + 1], of which the last is at most M
  Tensor out;      // receives, or has added, [experts, A, B]; fp32, or the dtype of a
  int64_t a_columns = 0;
  int64_t b_columns = 0;
  Write write = Write::kOverwrite;
};

namespace detail {

// out [rows, columns] = rows [rows, depth] * op(weights)
struct GroupedProduct {
  int64_t experts, rows, columns, depth;
};
inline GroupedProduct product_of(const GroupedMatmulArgs& args) {
  const int64_t experts = args.offsets.numel() - 1;
  return {.experts = experts,
          .rows = args.rows.numel() / args.depth,
          .columns = args.weights.numel() / (experts * args.depth),
          .depth = args.depth};
}

}  // namespace detail
}  // namespace ds::kernels
