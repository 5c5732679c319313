// CUDA's language for kernels under a C++ compiler: the threads of a block are fibres of one host
// thread, which change places at barriers and shuffles. Included by launch.cuh alone, in builds
// with DS_WITH_CUDA=EMULATED. What it knows is what our kernels use; a kernel that wants more does
// not compile.
//
// Found, beside wrong results: barriers and shuffles that only some threads reach, shuffles with
// lanes that are gone, lanes that meet at different instructions, copies that nobody waits for,
// accesses outside of global and shared memory (AddressSanitizer), misaligned packs
// (UndefinedBehaviorSanitizer), and, because every launch runs in several orders of threads and
// must leave the same bits, missing barriers and sums that depend on the order. ThreadSanitizer
// finds accesses that no barrier orders, within a block and between blocks, whatever they leave;
// for shuffles order nothing but their operands.
#pragma once

#include <array>
#include <atomic>
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
extern constinit thread_local Here here;

enum class ThreadOrder : uint8_t { kUp, kDown, kShuffled, kShuffledOtherwise };
inline constexpr std::array kThreadOrders = {
    ThreadOrder::kUp, ThreadOrder::kDown, ThreadOrder::kShuffled, ThreadOrder::kShuffledOtherwise};

// Runs `thread` for every thread of every block. InternalError for barriers that some do not reach.
void run_grid(const LaunchShape& shape, ThreadOrder order, const std::function<void()>& thread);
// The same in as many orders as emulated::orders() says, from the same contents of device memory,
// which must be the same after.
void run_launch(const LaunchShape& shape, std::string_view kernel,
                const std::function<void()>& thread);

// Bytes that the threads of a block share, by place in the source; not cleared, but NaN.
void* shared_array(const void* place, size_t bytes);
// Those that the launch asked for.
void* shared_of_launch();

void block_barrier();
void warp_barrier(unsigned mask);
int lane();

// An instruction that the lanes in `mask` execute together: each brings its operands, and the last
// to arrive calls `execute` with everybody's.
inline constexpr int kLanes = 32;
using Operands = std::array<void*, kLanes>;  // null for lanes outside of the mask
using WarpInstruction = void (*)(unsigned mask, const Operands& operands);
void together(unsigned mask, WarpInstruction execute, void* own);

template <class T>
struct Shuffled {
  T given;
  int from;
  T taken;
};
void require_lane(unsigned mask, int from);  // one of the mask

template <class T>
T taken(unsigned mask, T value, int from) {
  require_lane(mask, from);
  Shuffled<T> own{.given = value, .from = from, .taken = {}};
  const WarpInstruction shuffle = [](unsigned of, const Operands& operands) {
    for (int i = 0; i < kLanes; ++i) {
      if ((of >> i & 1U) == 0) continue;
      auto* const one = static_cast<Shuffled<T>*>(operands[static_cast<size_t>(i)]);
      const auto from_lane = static_cast<size_t>(one->from);
      one->taken = static_cast<const Shuffled<T>*>(operands[from_lane])->given;
    }
  };
  together(mask, shuffle, &own);
  return own.taken;
}

// Copies into shared memory that a thread asks for and goes on: made at once in half of the orders,
// and in the others when it waits for them, and no sooner. The first `read` of `bytes` come from
// `from`, the others are 0.
void copy_later(void* to, const void* from, size_t bytes, size_t read);
void end_copy_group();
void wait_for_copies(int most_groups);  // that may be under way still

// `bytes` of shared memory at `at`, or an error in the words of `who`.
void require_shared(const void* at, size_t bytes, std::string_view who);

}  // namespace on_host
}  // namespace ds::cuda

#define threadIdx (::ds::cuda::on_host::here.thread)
#define blockIdx (::ds::cuda::on_host::here.block)
#define blockDim (::ds::cuda::on_host::here.block_dim)
#define gridDim (::ds::cuda::on_host::here.grid_dim)

inline void __syncthreads() { ds::cuda::on_host::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffU) { ds::cuda::on_host::warp_barrier(mask); }
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
// As relaxed as a GPU's, and atomic although every thread runs to its next barrier undisturbed:
// ThreadSanitizer would take them for races.
template <class T>
T atomicAdd(T* to, T value) {
  return std::atomic_ref(*to).fetch_add(value, std::memory_order_relaxed);
}
template <class T>
T atomicMax(T* to, T value) {
  std::atomic_ref place(*to);
  T before = place.load(std::memory_order_relaxed);
  while (value > before && !place.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
  return before;
}
template <class T>
T atomicOr(T* to, T bits) {
  return std::atomic_ref(*to).fetch_or(bits, std::memory_order_relaxed);
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

// A place in the source has its array; templates have theirs each.
#define DS_SHARED(T, name, count)     \
  static const char name##_place = 0; \
  T* const name =                     \
      static_cast<T*>(::ds::cuda::on_host::shared_array(&name##_place, sizeof(T) * (count)))
#define DS_SHARED_OF_LAUNCH(T, name) \
  T* const name = static_cast<T*>(::ds::cuda::on_host::shared_of_launch())
