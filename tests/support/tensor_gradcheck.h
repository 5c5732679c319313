// Numeric gradient check of code over tensors: central differences of a scalar against an analytic
// gradient. The scalar is summed in fp64 over fp32 results, so the step must be large enough that
// rounding does not drown the difference: 1e-2 on values of order one leaves about three digits.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "tests/support/catch.h"

namespace ds::testing {

struct GradCheck {
  double step = 1e-2;
  double relative = 2e-2;  // of the largest gradient element
  int64_t elements = 48;   // how many are tried, spread evenly; each costs two evaluations
};

// Perturbs `x` (fp32, CPU) element by element and restores it; `loss` evaluates from scratch.
inline void check_gradient(const std::string& name, const std::function<double()>& loss, Tensor& x,
                           const Tensor& gradient, const GradCheck& how = {}) {
  REQUIRE(gradient.defined());
  REQUIRE(gradient.numel() == x.numel());
  auto* values = x.data<float>();
  const auto* analytic = gradient.data<float>();
  double largest = 1e-3;
  for (int64_t i = 0; i < x.numel(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(analytic[i])));
  }
  const int64_t stride = std::max<int64_t>(1, x.numel() / how.elements);
  for (int64_t i = 0; i < x.numel(); i += stride) {
    const float before = values[i];
    const auto step = static_cast<float>(how.step * std::max(1.0, std::abs(double{before})));
    values[i] = before + step;
    const double above = loss();
    const double width_up = double{values[i]} - double{before};
    values[i] = before - step;
    const double below = loss();
    const double width = width_up + (double{before} - double{values[i]});
    values[i] = before;
    const double numeric = (above - below) / width;
    INFO(name << "[" << i << "]: analytic " << analytic[i] << ", numeric " << numeric
              << ", largest " << largest);
    REQUIRE(std::abs(numeric - double{analytic[i]}) <= how.relative * largest);
  }
}

}  // namespace ds::testing
