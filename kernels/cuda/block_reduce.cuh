// Sums and maxima over the threads of a warp or a block, in an order that does not depend on which
// thread comes first. All threads of the warp or block have to call them, and all get the result.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace ds::cuda {

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

template <class T, class Op>
__device__ T warp_reduce(T value, Op op) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// `nothing`: op(nothing, x) is x.
template <class T, class Op>
__device__ T block_reduce(T value, Op op, T nothing) {
  DS_SHARED(T, of_warp, kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = warp_reduce(value, op);
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = warp_reduce(lane < warps ? of_warp[lane] : nothing, op);
  __syncthreads();  // before the next reduction writes there
  return value;
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, Plus{}, T{0});
}

}  // namespace ds::cuda
