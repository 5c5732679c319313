#include "kernels/front/cuda_halves.h"

#include "core/device/dispatch.h"

namespace ds::kernels {

bool has_cuda_halves() { return kHasCudaKernels; }

}  // namespace ds::kernels
