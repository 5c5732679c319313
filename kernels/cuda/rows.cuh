// Rows of elements: a block takes a row at a time and its threads go along it in packs, so that no
// thread has to divide to find its place.
#pragma once

#include <algorithm>

#include "kernels/cuda/pack.cuh"

namespace ds::cuda {

// Blocks for `rows` rows of `items` items, one item a thread.
inline LaunchShape shape_for_rows(int64_t rows, int64_t items) {
  const int64_t warps = std::clamp<int64_t>((items + kWarp - 1) / kWarp, 1, 8);
  const int threads = static_cast<int>(warps) * kWarp;
  return shape_for(rows * threads, threads);
}

// Every row of `columns` elements that begins at the first element of an array, or whole rows
// later, consists of packs.
template <int N, class... T>
bool rows_are_packs(int64_t columns, const T*... arrays) {
  return columns % N == 0 && (is_aligned<N>(arrays) && ...);
}

}  // namespace ds::cuda
