// The only dispatchers: on_device picks the backend half of a kernel, on_float its element type.
// Meta tensors run nothing: the front function has checked shapes and reported the cost by then.
#pragma once

#include "core/device/stream.h"
#include "core/status/error.h"
#include "core/values/device.h"
#include "core/values/dtype.h"

namespace ds {

struct Cpu {};
struct Cuda {};

#if defined(DS_HAS_CUDA_KERNELS)
inline constexpr bool kHasCudaKernels = true;
#else
inline constexpr bool kHasCudaKernels = false;
#endif

// Calls cpu(Cpu{}) on CPU streams, cuda(Cuda{}) on CUDA streams, and nothing on meta, but `cuda`
// where that stands for a CUDA device: that half takes its scratch memory then, while launches and
// library calls do nothing. Only in `cpu` may tensors of the stream's device be read or written;
// `cuda` gives the work to the stream's queue, and is not even compiled in a build without CUDA.
template <class CpuHalf, class CudaHalf>
void on_device(const Stream& stream, CpuHalf&& cpu, CudaHalf&& cuda) {
  switch (stream.device().kind) {
    case Device::Kind::kCpu: {
      const DeviceAccess access(stream.gate());
      cpu(Cpu{});
      return;
    }
    case Device::Kind::kMeta:
      if constexpr (kHasCudaKernels) {
        if (stream.stands_for().kind == Device::Kind::kCuda) cuda(Cuda{});
      }
      return;
    case Device::Kind::kCuda:
      if constexpr (kHasCudaKernels) {
        cuda(Cuda{});
      } else {
        throw Unsupported("kernels: this build has no CUDA half (build option DS_WITH_CUDA)");
      }
  }
}

// Calls f.template operator()<T>() with T one of float, BF16, F16.
template <class F>
decltype(auto) on_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kBF16:
      return f.template operator()<BF16>();
    case DType::kF16:
      return f.template operator()<F16>();
    default:
      throw InternalError(fmt::format("on_float: {} is no float type", name_of(dtype)));
  }
}

}  // namespace ds
