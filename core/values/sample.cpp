// Random subsets by selection sampling.
#include "core/values/sample.h"

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

// Knuth, TAOCP 2, 3.4.2, algorithm S: position i is taken with probability needed / left, which
// gives ascending order without sorting.
std::vector<int32_t> random_subset(const Rng& rng, int64_t length, int64_t count) {
  DS_CHECK(count >= 0 && count <= length && length <= int64_t{1} << 31,
           "random_subset: {} of {} numbers asked for", count, length);
  std::vector<int32_t> subset;
  subset.reserve(to_size(count));
  for (int64_t i = 0, needed = count; needed > 0; ++i) {
    const uint64_t left = static_cast<uint64_t>(length - i);
    const uint64_t draw = (static_cast<uint64_t>(rng.bits(static_cast<uint64_t>(i))) * left) >> 32;
    if (draw >= static_cast<uint64_t>(needed)) continue;
    subset.push_back(static_cast<int32_t>(i));
    --needed;
  }
  return subset;
}

}  // namespace ds
