// The CUDA half of kernels/step/scalars. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/step/scalars.h"

namespace ds::kernels::detail {

void finish_step_cuda(Stream& stream, const Tensor& gathered, const FinishRule& rule,
                      const StepScalars& scalars);

}  // namespace ds::kernels::detail
