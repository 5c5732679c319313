// The end of a step on CUDA devices: a few numbers per rank, which one thread adds in rank order.
#include "core/device/device_flags.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/step/scalars_cuda.h"
#include "kernels/step/scalars_outcome.h"

namespace ds::kernels::detail {
namespace {

__global__ void finish_step_kernel(const double* gathered, int64_t ranks, FinishRule rule,
                                   StepOutcome* outcome, StepInputs* inputs,
                                   const StepInputs* after_skip, uint32_t* flags) {
  if (threadIdx.x != 0) return;
  *outcome = outcome_of(gathered, ranks, rule, *outcome, *flags);
  *inputs = inputs_of(*outcome, *inputs, *after_skip);
  *flags = 0;
}

}  // namespace

void finish_step_cuda(Stream& stream, const Tensor& gathered, const FinishRule& rule,
                      const StepScalars& scalars) {
  cuda::launch("finish_step", finish_step_kernel, {.blocks = 1, .threads = cuda::kWarp}, stream,
               static_cast<const double*>(gathered.address()), gathered.numel() / kStepSums, rule,
               &scalars.outcome(), &scalars.inputs(), &scalars.inputs_after_skip(),
               DeviceFlags(stream).word());
}

}  // namespace ds::kernels::detail
