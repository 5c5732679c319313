// The middle of the rounds' values; of an even count the upper one.
#pragma once

#include <algorithm>
#include <vector>

namespace ds::bench {

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace ds::bench
