#include "train/settings/power_iteration.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace ds {
namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(
      a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
      [](float x, float y) { return static_cast<double>(x) * static_cast<double>(y); });
}

void clear_not_finite(std::vector<float>& v) {
  std::ranges::replace_if(
      v, [](float x) { return !std::isfinite(x); }, 0.0F);
}

void normalize(std::vector<float>& v, double stability) {
  const double length = std::sqrt(dot(v, v)) + stability;
  for (float& x : v) x = static_cast<float>(x / length);
  clear_not_finite(v);  // of a length of zero without stability
}

}  // namespace

PowerResult largest_eigenvalue(
    std::vector<float> v, const PowerRules& rules, const MatrixProduct& product,
    const std::function<void(int64_t iteration, double estimate)>& told) {
  clear_not_finite(v);
  normalize(v, rules.stability);
  PowerResult result{.eigenvalue = 1};
  double previous = 0;
  while (result.iterations < rules.most && result.eigenvalue != 0 &&
         std::abs((result.eigenvalue - previous) / result.eigenvalue) >= rules.tolerance) {
    previous = result.eigenvalue;
    std::vector<float> next = product(v);
    clear_not_finite(next);
    result.eigenvalue = dot(next, v);
    ++result.iterations;
    if (told) told(result.iterations, result.eigenvalue);
    v = std::move(next);
    normalize(v, rules.stability);
  }
  return result;
}

std::vector<double> relative_to_largest(std::span<const double> eigenvalues) {
  double largest = 0;
  for (const double value : eigenvalues) largest = std::max(largest, std::abs(value));
  std::vector<double> out;
  for (const double value : eigenvalues) {
    out.push_back(value == 0 ? 1.0 : std::abs(value) / largest);
  }
  return out;
}

}  // namespace ds
