// The instruction sets each vectorised source is compiled for: AVX-512, AVX2 and plain C++ on x86-64;
// NEON on arm64. The best one that the machine has is chosen at run time (HWY_DYNAMIC_DISPATCH).
// Include after defining HWY_TARGET_INCLUDE, and before kernels/simd.inl.
#pragma once

// Each target costs compile time. x86 machines without AVX2 are too rare to be worth two of their own;
// SVE vectors have no size at compile time, which our tiles need.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

#include <hwy/foreach_target.h>  // IWYU pragma: export
#include <hwy/highway.h>
