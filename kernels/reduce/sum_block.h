// Sums of many elements are made of those of blocks, which are added in order: so they are the same
// on any number of threads.
#pragma once

#include <cstdint>

namespace ds::kernels {

inline constexpr int64_t kSumBlock = 4096;  // elements

}  // namespace ds::kernels
