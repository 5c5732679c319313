// What a reference model says of samples that are pairs of texts: the log probabilities of both.
// They are computed once, before the model that learns from them has changed.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

class ReferenceScores {
 public:
  using Pair = std::array<double, 2>;  // of the better text, and of the other one

  // A set with so many samples, of which none is known.
  explicit ReferenceScores(int64_t samples) : pairs_(to_size(samples), kUnknown) {}

  int64_t samples() const { return std::ssize(pairs_); }
  bool knows(int64_t sample) const { return !std::isnan(nth(pairs_, sample)[0]); }
  const Pair& of(int64_t sample) const {
    DS_CHECK(knows(sample), "reference: sample {} has no score", sample);
    return nth(pairs_, sample);
  }
  void set(int64_t sample, const Pair& pair) { nth(pairs_, sample) = pair; }
  // In the order of the samples, with NaN for those that are not known.
  std::span<const Pair> pairs() const { return pairs_; }
  void set_all(std::vector<Pair> pairs) { pairs_ = std::move(pairs); }

 private:
  static constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  static constexpr Pair kUnknown{kNothing, kNothing};
  std::vector<Pair> pairs_;
};

// The samples of training, and those of validation, if there are some.
struct RunReferences {
  ReferenceScores train, validation;
};

}  // namespace ds
