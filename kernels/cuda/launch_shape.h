// How many threads a kernel is launched with, and what it may ask for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ds::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

// What a launch may ask for: sm_80 has it of one block, and whoever has more has this as well.
inline constexpr size_t kMostSharedBytes = size_t{163} << 10;

struct LaunchShape {
  int64_t blocks = 1;
  int threads = 256;        // of a block: a multiple of a warp
  size_t shared_bytes = 0;  // that DS_SHARED_OF_LAUNCH names
};

// Blocks of `threads` that have one each for `items`, but no more than a GPU has use for: kernels
// go over what is left in steps of the grid.
inline LaunchShape shape_for(int64_t items, int threads = 256) {
  constexpr int64_t kMostBlocks = 4096;
  const int64_t blocks = (items + threads - 1) / threads;
  return {.blocks = blocks < 1 ? 1 : (blocks < kMostBlocks ? blocks : kMostBlocks),
          .threads = threads};
}

}  // namespace ds::cuda
