// Numeric gradients by central differences of an fp64 function: the check that every differentiable
// kernel passes. With f smooth and of order 1 the result is good to about 1e-8.
#pragma once

#include <functional>

#include "tests/support/reference.h"

namespace ds::reference {

inline Values numeric_gradient(const std::function<double(const Values&)>& f, const Values& at,
                               double step = 1e-4) {
  Values gradient(at.size());
  Values moved = at;
  for (size_t i = 0; i < at.size(); ++i) {
    moved[i] = at[i] + step;
    const double up = f(moved);
    moved[i] = at[i] - step;
    const double down = f(moved);
    moved[i] = at[i];
    gradient[i] = (up - down) / (2 * step);
  }
  return gradient;
}

}  // namespace ds::reference
