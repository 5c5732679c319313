// The only dispatchers: on_device picks the backend half of a kernel, on_float its element type.
// Meta tensors run nothing: the front function has checked shapes and reported the cost by then.
#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/stream.h"

namespace ds {

struct Cpu {};
struct Cuda {};

// Calls f(Cpu{}) on CPU streams, nothing on meta. The CUDA half joins here when kernels have one.
// Only in f may tensors of the stream's device be read or written.
template <class F>
void on_device(const Stream& stream, F&& f) {
  switch (stream.device().kind) {
    case Device::Kind::kCpu: {
      const DeviceAccess access(stream.gate());
      f(Cpu{});
      return;
    }
    case Device::Kind::kMeta:
      return;
    case Device::Kind::kCuda:
      throw Unsupported("kernels: this build has no CUDA half (build option DS_WITH_CUDA)");
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
