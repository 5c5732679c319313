// What drop_over_capacity() is told, see capacity.h.
#pragma once

#include "core/device/tensor.h"

namespace ds::kernels {

struct CapacityArgs {
  // The choices as sort_by_expert() has put them. Its ChoiceOrder says who comes first.
  Tensor offsets;          // int32 [experts + 1]
  Tensor order;            // int32 [N * k]
  int64_t capacity = 0;    // choices that each expert keeps at most
  Tensor priorities = {};  // fp32 [N * k], or undefined
  Tensor experts;          // int32 [N * k]: those that are dropped become -1
};

}  // namespace ds::kernels
