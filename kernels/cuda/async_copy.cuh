// Copies from global to shared memory that a thread asks for and goes on (cp.async). What has been
// waited for is there for the thread itself, and after a barrier for the block.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace ds::cuda {

// 16 bytes, both ends aligned to that; zeros instead, and nothing is read, where it is not there.
__device__ inline void copy_async(void* to, const void* from, bool there) {
#if defined(__CUDACC__)
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(at), "l"(from), "r"(there ? 16 : 0)
               : "memory");
#else
  on_host::copy_later(to, from, 16, there ? 16 : 0);
#endif
}

// Those asked for since the last end are one group.
__device__ inline void end_copy_group() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  on_host::end_copy_group();
#endif
}

// Until all groups but the newest kUnderWay are there.
template <int kUnderWay>
__device__ void wait_for_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;" : : "n"(kUnderWay) : "memory");
#else
  on_host::wait_for_copies(kUnderWay);
#endif
}

// work(i, stage) for i = 0 .. count - 1, while what fetch(i + 1, stage) asks for is on its way. The
// first is fetched by the caller's fetch(0, 0), before it prepares its own. By all threads.
template <class Fetch, class Work>
__device__ void in_two_stages(int count, Fetch fetch, Work work) {
  for (int i = 0; i < count; ++i) {
    if (i + 1 < count) {
      fetch(i + 1, (i + 1) % 2);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    work(i, i % 2);
    __syncthreads();  // before the stage's next contents come
  }
}

}  // namespace ds::cuda
