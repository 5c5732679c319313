// The only header from which .cu files take CUDA. nvcc compiles them for a GPU; a C++ compiler
// does for the emulated device (on_host.h), so that kernels are executed where there is no GPU.
#pragma once

#include <string_view>
#include <utility>

#include "core/device/stream.h"
#include "core/status/error.h"
#include "kernels/cuda/launch_shape.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#else
#include "core/cuda/emulated.h"
#include "kernels/cuda/on_host.h"
#endif

namespace ds::cuda {

// Gives the kernel to the stream's queue; nothing on meta. Throws what the launch itself says.
template <class... Parameters, class... Arguments>
void launch(std::string_view name, void (*kernel)(Parameters...), const LaunchShape& shape,
            const Stream& stream, Arguments&&... arguments) {
  if (shape.blocks == 0) return;
  DS_CHECK(shape.shared_bytes <= kMostSharedBytes, "{}: {} bytes of shared memory; there are {}",
           name, shape.shared_bytes, kMostSharedBytes);
  if (stream.device().is_meta()) return;
#if defined(__CUDACC__)
  constexpr size_t kUnasked = size_t{48} << 10;  // a kernel gets more only if that is asked for
  if (shape.shared_bytes > kUnasked) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
    if (error != cudaSuccess) {
      throw InternalError(fmt::format("{}: {} bytes of shared memory: {}", name, shape.shared_bytes,
                                      cudaGetErrorString(error)));
    }
  }
  const auto queue = static_cast<cudaStream_t>(stream.queue().native());
  kernel<<<static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.threads),
           shape.shared_bytes, queue>>>(Parameters(std::forward<Arguments>(arguments))...);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw InternalError(fmt::format("{}: {}", name, cudaGetErrorString(error)));
  }
#else
  std::function<void()> thread =
      [kernel, ... values = Parameters(std::forward<Arguments>(arguments))] { kernel(values...); };
  emulated::enqueue(stream.queue(), [name, shape, thread = std::move(thread)] {
    on_host::run_launch(shape, name, thread);
  });
#endif
}

// Before a loop: its arrays are to lie in registers; and: its turns are not to be mixed, which
// would take more of them.
#if defined(__CUDACC__)
#define DS_UNROLL _Pragma("unroll")
#define DS_DO_NOT_UNROLL _Pragma("unroll 1")
#else
#define DS_UNROLL
#define DS_DO_NOT_UNROLL
#endif

#if defined(__CUDACC__)
#define DS_SHARED(T, name, count) __shared__ T name[count]
#define DS_SHARED_OF_LAUNCH(T, name)                          \
  extern __shared__ __align__(16) unsigned char name##_raw[]; \
  T* const name = reinterpret_cast<T*>(name##_raw)
#endif

}  // namespace ds::cuda
