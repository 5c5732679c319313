// How much a row counts in a loss.
#pragma once

#include <cstdint>

namespace ds::kernels::detail {

// The weight of a row; one that is ignored has none.
constexpr float row_weight(int32_t target, const float* row_weights, int64_t row) {
  if (target < 0) return 0.0F;
  return row_weights == nullptr ? 1.0F : row_weights[row];
}

}  // namespace ds::kernels::detail
