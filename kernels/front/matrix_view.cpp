#include "kernels/front/matrix_view.h"

#include "core/status/error.h"

namespace ds::kernels {

MatrixView matrix(const Tensor& tensor, int64_t rows, int64_t columns) {
  DS_CHECK(tensor.numel() == rows * columns, "matrix: {} x {} of a tensor of shape {}", rows,
           columns, tensor.shape().to_string());
  return {tensor, rows, columns, columns, 0};
}

MatrixView columns_of(const MatrixView& view, int64_t first, int64_t count) {
  DS_CHECK(first >= 0 && count >= 0 && first + count <= view.columns,
           "columns_of: columns [{}, {}) of {}", first, first + count, view.columns);
  return {view.tensor, view.rows, count, view.row_stride, view.offset + first};
}

}  // namespace ds::kernels
