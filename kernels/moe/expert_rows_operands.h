// What the functions of expert_rows.h are told.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

struct RowsOfTokens {
  int64_t choices = 1;  // of a token: k
  int64_t columns = 0;  // of a row
};

struct RowsThere {
  RowsOfTokens shape;
  Tensor x;
  Tensor order;
  Tensor weights = {};
  Tensor rows;  // receives
};

struct RowsBack {
  RowsOfTokens shape;
  Tensor rows;  // [M, columns]
  Tensor place;
  Tensor weights = {};  // fp32 [N, k], or undefined
  Tensor y;             // receives, [N, columns] of the dtype of the rows
};

}  // namespace ds::kernels
