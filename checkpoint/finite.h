// Which numbers of a tensor are not finite, in a pass over its bytes that costs less than to digest
// them. Refuses to say what follows from that.
#pragma once

#include <cstdint>
#include <optional>

#include "core/device/tensor.h"

namespace ds {

struct BadElement {
  int64_t index = 0;
  float value = 0;
};
// The first element of floating numbers on the host that is not finite, or would not be if it were
// rounded to the type `as`. Of other types there is none.
std::optional<BadElement> first_not_finite(const Tensor& values, DType as);

}  // namespace ds
