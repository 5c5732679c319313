// How a weight is rounded that has no fp32 master (pure): up or down at random, in proportion to
// the distance, so that of many steps, each less than half of the last bit, none is lost on
// average. The noise is a function of who asks (a key made of seed and parameter), of the step, and
// of the number of the element within its parameter: no rank, cut, thread or resumed run changes a
// bit.
#pragma once

#include <cstdint>

#include "core/values/rng.h"

namespace ds::kernels {

struct WeightNoise {
  uint64_t key = 0;
  int64_t first = 0;  // of the parameter's elements, which the first one here is
  bool operator==(const WeightNoise&) const = default;
};

// Returns what the noise of a step's elements starts from.
constexpr uint32_t weight_salt(uint64_t key, int64_t step) {
  return static_cast<uint32_t>(spread(key ^ spread(static_cast<uint64_t>(step) + 1)) >> 32);
}
// Returns an element's noise, by the lower 32 bits of its number: elements that far apart share it.
constexpr uint32_t weight_noise(uint32_t salt, uint32_t element) {
  uint32_t hash = (element + salt) * 0x9e3779b1U;
  hash ^= hash >> 16;
  hash *= 0x85ebca6bU;
  hash ^= hash >> 13;
  hash = (hash + salt) * 0xc2b2ae35U;
  return hash ^ (hash >> 16);
}

}  // namespace ds::kernels
