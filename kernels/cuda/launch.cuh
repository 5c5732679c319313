// The only header from which .cu files take CUDA. nvcc compiles them for a GPU; a C++ compiler
// does for the emulated device (on_host.h), so that kernels are executed where there is no GPU.
#pragma once

#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/stream.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "core/cuda/emulated.h"
#include "kernels/cuda/on_host.h"
#endif

namespace ds::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

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

// Gives the kernel to the stream's queue. Throws what the launch itself says.
template <class... Parameters, class... Arguments>
void launch(std::string_view name, void (*kernel)(Parameters...), const LaunchShape& shape,
            const Stream& stream, Arguments&&... arguments) {
  if (shape.blocks == 0) return;
#if defined(__CUDACC__)
  const auto queue = static_cast<cudaStream_t>(stream.queue().native());
  kernel<<<static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.threads),
           shape.shared_bytes, queue>>>(Parameters(std::forward<Arguments>(arguments))...);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw InternalError(fmt::format("{}: {}", name, cudaGetErrorString(error)));
  }
#else
  std::function<void()> thread =
      [kernel, ... values = Parameters(std::forward<Arguments>(arguments))] { kernel(values...); };
  emulated::enqueue(stream, [name, shape, thread = std::move(thread)] {
    on_host::run_in_all_orders(shape, name, thread);
  });
#endif
}

#if defined(__CUDACC__)
#define DS_SHARED(T, name, count) __shared__ T name[count]
#define DS_SHARED_OF_LAUNCH(T, name)            \
  extern __shared__ unsigned char name##_raw[]; \
  T* const name = reinterpret_cast<T*>(name##_raw)
#endif

}  // namespace ds::cuda
