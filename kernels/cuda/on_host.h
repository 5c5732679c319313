// CUDA's language for kernels under a C++ compiler: the threads of a block are fibres of one host
// thread, which change places at barriers and shuffles. Included by launch.cuh alone, in builds
// with DS_WITH_CUDA=EMULATED. What it knows is what our kernels use; a kernel that wants more does
// not compile.
//
// Found, beside wrong results: barriers and shuffles that only some threads reach, shuffles with
// lanes that are gone, accesses outside of global and shared memory (AddressSanitizer), misaligned
// packs (UndefinedBehaviorSanitizer), and, because every launch runs in several orders of threads
// and must leave the same bits, missing barriers and sums that depend on the order.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

namespace ds::cuda {

struct LaunchShape;

namespace on_host {

// The thread whose code runs.
struct Here {
  dim3 thread{}, block{}, block_dim{}, grid_dim{};
};
extern thread_local Here here;

enum class ThreadOrder : uint8_t { kUp, kDown, kShuffled, kShuffledOtherwise };
inline constexpr ThreadOrder kThreadOrders[] = {
    ThreadOrder::kUp, ThreadOrder::kDown, ThreadOrder::kShuffled, ThreadOrder::kShuffledOtherwise};

// Runs `thread` for every thread of every block. InternalError for barriers that some do not reach.
void run_grid(const LaunchShape& shape, ThreadOrder order, const std::function<void()>& thread);
// The same in all orders, from the same contents of device memory, which must be the same after.
void run_in_all_orders(const LaunchShape& shape, std::string_view kernel,
                       const std::function<void()>& thread);

// Bytes that the threads of a block share, by place in the source; not cleared, but NaN.
void* shared_array(const void* place, size_t bytes);
// Those that the launch asked for.
void* shared_of_launch();

void block_barrier();
// A barrier of the lanes in `mask`; what `from` put down is then in `value`.
inline constexpr size_t kLaneBytes = 16;
void exchange(unsigned mask, int from, void* value, size_t bytes);
int lane();

template <class T>
T taken(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= kLaneBytes);
  exchange(mask, from, &value, sizeof(T));
  return value;
}

}  // namespace on_host
}  // namespace ds::cuda

#define threadIdx (::ds::cuda::on_host::here.thread)
#define blockIdx (::ds::cuda::on_host::here.block)
#define blockDim (::ds::cuda::on_host::here.block_dim)
#define gridDim (::ds::cuda::on_host::here.grid_dim)

inline void __syncthreads() { ds::cuda::on_host::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffU) {
  ds::cuda::on_host::taken(mask, 0, ds::cuda::on_host::lane());
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other, int /*width*/ = 32) {
  return ds::cuda::on_host::taken(mask, value, ds::cuda::on_host::lane() ^ other);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int /*width*/ = 32) {
  return ds::cuda::on_host::taken(mask, value, from & 31);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int /*width*/ = 32) {
  const int from = ds::cuda::on_host::lane() + static_cast<int>(by);
  return ds::cuda::on_host::taken(mask, value, from < 32 ? from : ds::cuda::on_host::lane());
}
// Every thread of a block runs to its next barrier undisturbed.
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
template <class T>
T atomicMax(T* to, T value) {
  const T before = *to;
  if (value > before) *to = value;
  return before;
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

// A place in the source has its array; templates have theirs each.
#define DS_SHARED(T, name, count)     \
  static const char name##_place = 0; \
  T* const name =                     \
      static_cast<T*>(::ds::cuda::on_host::shared_array(&name##_place, sizeof(T) * (count)))
#define DS_SHARED_OF_LAUNCH(T, name) \
  T* const name = static_cast<T*>(::ds::cuda::on_host::shared_of_launch())
