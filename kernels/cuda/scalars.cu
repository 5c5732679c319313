// The end of a step on CUDA devices: a few numbers per rank, which one thread adds in rank order.
#include "core/cuda/device_flags.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/scalars.h"
#include "kernels/step/outcome.h"

namespace ds::kernels::detail {
namespace {

__global__ void finish_step_kernel(const double* gathered, int64_t ranks, double max_norm,
                                   StepOutcome* outcome, uint32_t* flags) {
  if (threadIdx.x != 0) return;
  *outcome = outcome_of(gathered, ranks, max_norm, *outcome, *flags);
  *flags = 0;
}

}  // namespace

void finish_step_cuda(Stream& stream, const Tensor& gathered, double max_norm,
                      const StepScalars& scalars) {
  cuda::launch("finish_step", finish_step_kernel, {.blocks = 1, .threads = cuda::kWarp}, stream,
               static_cast<const double*>(gathered.address()), gathered.numel() / kStepSums,
               max_norm, &scalars.outcome(), DeviceFlags(stream).word());
}

}  // namespace ds::kernels::detail
