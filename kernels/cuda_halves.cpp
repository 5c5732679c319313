#include "kernels/cuda_halves.h"

#include "core/dispatch.h"

namespace ds::kernels {

bool has_cuda_halves() { return kHasCudaKernels; }

}  // namespace ds::kernels
