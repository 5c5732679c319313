// fp32 numbers of tests that go over them one by one, as tensors and back.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/reference.h"

namespace ds::reference {

using Floats = std::vector<float>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Floats floats_of(const Tensor& tensor) {
  const Values values = values_of(tensor);
  return {values.begin(), values.end()};
}

inline Tensor numbers(const Floats& values, DType dtype, Stream& stream) {
  return tensor_of(Values(values.begin(), values.end()), {static_cast<int64_t>(values.size())},
                   dtype, stream);
}

// Equal, or both NaN.
inline bool same(const Floats& a, const Floats& b) {
  return std::ranges::equal(
      a, b, [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace ds::reference
