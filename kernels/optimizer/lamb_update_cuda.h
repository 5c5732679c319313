// The CUDA half of kernels/step/lamb_update. Operands have been checked; pointers are of the
// device.
#pragma once

#include "kernels/optimizer/lamb_update.h"

namespace ds::kernels::detail {

void lamb_moments_cuda(Stream& stream, const LambArgs& args, const LambRule& rule,
                       const StepScalars& scalars, const Tensor& sums);
void lamb_apply_cuda(Stream& stream, const LambArgs& args, const LambRule& rule,
                     const StepScalars& scalars, const LambSums& sums);

}  // namespace ds::kernels::detail
