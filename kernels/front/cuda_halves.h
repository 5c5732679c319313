// Whether this build has the CUDA halves of kernels, for GPUs or for the emulated device.
#pragma once

namespace ds::kernels {

bool has_cuda_halves();

}  // namespace ds::kernels
