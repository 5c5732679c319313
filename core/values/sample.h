// Random subsets (pure): a function of the generator alone, so every rank draws the same one.
#pragma once

#include <cstdint>
#include <vector>

#include "core/values/rng.h"

namespace ds {

// `count` of the numbers 0 .. length-1, ascending, every subset equally likely. Uses the words
// 0 .. length-1 of the generator's stream; derive a generator per use. DS_CHECKs 0 <= count <=
// length.
std::vector<int32_t> random_subset(const Rng& rng, int64_t length, int64_t count);

}  // namespace ds
