// What is done with tensors of the host by who works there: values are read, bytes are copied by
// all threads. A meta tensor stands for one without bytes: no values are read, nothing is copied.
#pragma once

#include <span>

#include "core/device/tensor.h"

namespace ds {

// The values of a tensor of the CPU; none on meta.
template <class T>
std::span<const T> host_values(const Tensor& tensor) {
  if (tensor.is_meta()) return {};
  return {tensor.data<T>(), to_size(tensor.numel())};
}

// As Stream::copy, with all threads of a stream of the CPU, since it is memory that it takes.
void copy_by_threads(const Tensor& from, const Tensor& to, Stream& stream);

}  // namespace ds
