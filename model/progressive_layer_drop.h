// Progressive layer drop (pure): the keep probability over training steps and over depth.
// Source: Zhang and He, "Accelerating Training of Transformer-Based Language Models with
// Progressive Layer Dropping" (arXiv 2010.13369).
#pragma once

#include <cstdint>

namespace ds {

class ProgressiveLayerDrop {
 public:
  // theta: keep probability training ends with, in [0, 1]; gamma >= 0: how fast it gets there.
  // ConfigError outside these.
  ProgressiveLayerDrop(double theta, double gamma);

  // theta(t) = (1 - theta) * exp(-gamma * t) + theta, in double precision.
  double at(int64_t step) const;
  // Moves on to `step`; called once per optimizer step. Before the first call current() is 1.
  double update(int64_t step) { return current_ = at(step); }
  double current() const { return current_; }
  void restore(double current) { current_ = current; }

  // Keep probability of layer `index` (from 0) of `layers`: deeper layers are dropped more,
  // 1 - (index + 1) / layers * (1 - current).
  double keep_probability(int64_t index, int64_t layers) const;

 private:
  double theta_;
  double gamma_;
  double current_ = 1.0;
};

}  // namespace ds
