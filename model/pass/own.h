// What works in place works on a tensor that nobody else holds.
#pragma once

#include <utility>

#include "kernels/elementwise/elementwise.h"

namespace ds {

// Returns x if it has no other owner, and else a copy.
inline Tensor own(Stream& stream, Tensor x) {
  if (x.is_sole_owner()) return x;
  Tensor copy = Tensor::empty(x.shape(), x.dtype(), stream);
  kernels::cast(stream, x, copy);
  return copy;
}

}  // namespace ds
