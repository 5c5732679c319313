// How a kernel tells that a number in its operands is wrong (core/device/device_flags.h).
#pragma once

#include "core/device/device_flags.h"
#include "kernels/cuda/launch.cuh"

namespace ds::cuda {

__device__ inline void set_flag(DeviceFlag flag, uint32_t* word) {
  atomicOr(word, static_cast<uint32_t>(flag));
}

}  // namespace ds::cuda
