// elements() says where the elements of a tensor lie on the device.
#pragma once

#include "core/device/tensor.h"

namespace ds::cuda {

// Null where there is no tensor. T is the tensor's dtype, or const.
template <class T>
T* elements(const Tensor& tensor) {
  return static_cast<T*>(tensor.address());
}

}  // namespace ds::cuda
