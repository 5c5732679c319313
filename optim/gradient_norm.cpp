// Gradient norms.
#include "optim/gradient_norm.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace ds {

double gradient_norm(std::span<const std::span<const float>> tensors, double p) {
  DS_CHECK(p > 0, "gradient_norm: the order is {}, expected above 0", p);
  double sum = 0;
  for (const std::span<const float> tensor : tensors) {
    for (const float value : tensor) {
      const double magnitude = std::abs(static_cast<double>(value));
      if (std::isinf(p)) {
        // A comparison would drop a NaN; it has to show in the norm.
        sum = std::isnan(magnitude) ? magnitude : std::max(magnitude, sum);
        if (std::isnan(sum)) return sum;
      } else {
        sum += p == 2 ? magnitude * magnitude : std::pow(magnitude, p);
      }
    }
  }
  return std::isinf(p) ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / p);
}

double global_norm(std::span<const double> norms) {
  double squares = 0;
  for (const double norm : norms) squares += norm * norm;
  return std::sqrt(squares);
}

double unscale_and_clip_factor(double total_norm, double loss_scale, double max_norm) {
  DS_CHECK(loss_scale > 0, "unscale: the loss scale is {}, expected above 0", loss_scale);
  const double clip = max_norm > 0 ? (total_norm / loss_scale + 1e-6) / max_norm : 1.0;
  return 1.0 / (loss_scale * std::max(1.0, clip));
}

}  // namespace ds
