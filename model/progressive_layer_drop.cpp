// Progressive layer drop schedule.
#include "model/progressive_layer_drop.h"

#include <cmath>

#include "core/status/error.h"

namespace ds {

ProgressiveLayerDrop::ProgressiveLayerDrop(double theta, double gamma)
    : theta_(theta), gamma_(gamma) {
  if (!(theta >= 0 && theta <= 1)) {
    throw ConfigError(fmt::format("progressive_layer_drop: theta is {}, expected 0 to 1", theta));
  }
  if (!(gamma >= 0)) {
    throw ConfigError(
        fmt::format("progressive_layer_drop: gamma is {}, expected 0 or more", gamma));
  }
}

double ProgressiveLayerDrop::at(int64_t step) const {
  return (1.0 - theta_) * std::exp(-gamma_ * static_cast<double>(step)) + theta_;
}

double ProgressiveLayerDrop::keep_probability(int64_t index, int64_t layers) const {
  DS_CHECK(index >= 0 && index < layers, "progressive_layer_drop: layer {} of {}", index, layers);
  return 1.0 - static_cast<double>(index + 1) / static_cast<double>(layers) * (1.0 - current_);
}

}  // namespace ds
