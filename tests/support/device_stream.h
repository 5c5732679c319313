// A stream of the emulated device with memory of its own, and kernels of tests that run on it.
#pragma once

#include <memory>

#include "core/cuda/memory.h"
#include "core/device/tensor.h"
#include "kernels/cuda/launch.cuh"

namespace ds::cuda {

constexpr size_t kSlabBytes = size_t{1} << 20;

struct DeviceStream {
  std::unique_ptr<MemoryResource> memory = make_device_memory(Device::cuda(0), kSlabBytes);
  Stream stream{{.device = Device::cuda(0), .memory = memory.get()}};
  Tensor floats(int64_t count) { return Tensor::zeros({count}, DType::kF32, stream); }
};

inline float* at(const Tensor& tensor) { return static_cast<float*>(tensor.address()); }

template <class... Arguments, class... Parameters>
void run(void (*kernel)(Parameters...), const LaunchShape& shape, Stream& stream,
         Arguments... arguments) {
  launch("kernel", kernel, shape, stream, arguments...);
  stream.synchronize();
}

}  // namespace ds::cuda
