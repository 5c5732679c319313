// The CPU half of kernels/step/lamb_update. Operands have been checked.
#pragma once

#include "kernels/optimizer/lamb_update.h"

namespace ds::kernels::detail {

void lamb_moments_cpu(Stream& stream, const LambArgs& args, const LambRule& rule,
                      const StepScalars& scalars, const Tensor& sums);
void lamb_apply_cpu(Stream& stream, const LambArgs& args, const LambRule& rule,
                    const StepScalars& scalars, const LambSums& sums);

}  // namespace ds::kernels::detail
