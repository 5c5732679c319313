// What operations cost that products do in passing, too: equal, whoever does them.
#pragma once

#include "core/tensor.h"
#include "core/trace.h"
#include "kernels/gemm/matmul.h"

namespace ds::kernels::detail {

inline constexpr double kActivationFlops = 20;  // an exponential and a division

inline OpCost activation_backward_cost(const Tensor& x) {
  return {.flops = 2 * kActivationFlops * static_cast<double>(x.numel()),
          .bytes = 3 * static_cast<double>(x.bytes())};
}

inline OpCost column_sum_cost(const MatrixView& x, const Tensor& y) {
  const auto numel = static_cast<double>(x.rows * x.columns);
  return {.flops = numel,
          .bytes = numel * static_cast<double>(size_of(x.tensor.dtype())) +
                   static_cast<double>(y.bytes())};
}

}  // namespace ds::kernels::detail
