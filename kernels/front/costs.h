// What views of a matrix have, and what operations cost that products do in passing, too: equal,
// whoever does them.
#pragma once

#include "core/device/tensor.h"
#include "core/device/trace.h"
#include "kernels/front/matrix_view.h"

namespace ds::kernels::detail {

inline constexpr double kActivationFlops = 20;  // an exponential and a division

inline OpCost activation_backward_cost(const Tensor& x) {
  return {.flops = 2 * kActivationFlops * static_cast<double>(x.numel()),
          .bytes = 3 * static_cast<double>(x.bytes())};
}

// Elements, and their bytes, without what lies between rows.
inline double numel_of(const MatrixView& view) {
  return static_cast<double>(view.rows * view.columns);
}
inline double bytes_of(const MatrixView& view) {
  return numel_of(view) * static_cast<double>(size_of(view.tensor.dtype()));
}

inline OpCost column_sum_cost(const MatrixView& x, const Tensor& y) {
  return {.flops = numel_of(x), .bytes = bytes_of(x) + static_cast<double>(y.bytes())};
}

}  // namespace ds::kernels::detail
