// Sums of a tensor as numbers, for tests: the kernels write them to memory of the device.
#pragma once

#include "kernels/reduce/reduce.h"

namespace ds::testing {

// An fp64 number on the stream's device.
inline double number_in(Stream& stream, const Tensor& total) {
  double value = 0;
  stream.copy(total.address(), &value, sizeof(value));
  return value;
}

inline double sum_of(Stream& stream, const Tensor& x) {
  const Tensor total = Tensor::zeros({1}, DType::kF64, stream);
  kernels::sum_into(stream, x, 1.0, kernels::Write::kOverwrite, total);
  return number_in(stream, total);
}

inline double squares_of(Stream& stream, const Tensor& x) {
  const Tensor total = Tensor::zeros({1}, DType::kF64, stream);
  kernels::sum_of_squares_into(stream, x, kernels::Write::kOverwrite, total);
  return number_in(stream, total);
}

}  // namespace ds::testing
