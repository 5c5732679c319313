// Matrices inside tensors.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

// A row-major matrix inside a tensor: element (i, j) is at offset + i * row_stride + j.
struct MatrixView {
  Tensor tensor;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;  // elements
  int64_t offset = 0;      // elements
};
MatrixView matrix(const Tensor& tensor, int64_t rows, int64_t columns);  // the whole tensor
MatrixView columns_of(const MatrixView& view, int64_t first, int64_t count);

}  // namespace ds::kernels
