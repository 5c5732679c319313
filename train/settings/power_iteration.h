// The largest eigenvalue of a symmetric matrix that is known by its products with vectors alone
// (pure): power iteration as the "eigenvalue" section asks for it. It has nothing to do with how a
// product is made.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ds {

struct PowerRules {
  int64_t most = 100;       // products
  double tolerance = 0.01;  // relative change at which it is good enough
  double stability = 1e-6;  // added to lengths that are divided by
};

struct PowerResult {
  double eigenvalue = 0;   // with its sign
  int64_t iterations = 0;  // products that were made
};

using MatrixProduct = std::function<std::vector<float>(const std::vector<float>& v)>;

// v := v / (|v| + s); then again and again
//   lambda := v . H v,   v := H v / (|H v| + s)
// until |lambda - previous lambda| < tolerance |lambda|, lambda is 0, or `most` products are made.
// Elements that are not finite count as zero. `told`: of each estimate; may be empty. Throws what
// the product throws.
PowerResult largest_eigenvalue(
    std::vector<float> v, const PowerRules& rules, const MatrixProduct& product,
    const std::function<void(int64_t iteration, double estimate)>& told = {});

// Magnitudes by the largest of them, in [0, 1]; where an eigenvalue is zero, which nobody could
// measure, 1.
std::vector<double> relative_to_largest(std::span<const double> eigenvalues);

}  // namespace ds
