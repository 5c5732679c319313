// The CPU half of kernels/step/scalars. Operands have been checked.
#pragma once

#include "kernels/step/scalars.h"

namespace ds::kernels::detail {

void finish_step_cpu(const Tensor& gathered, const FinishRule& rule, const StepScalars& scalars);

}  // namespace ds::kernels::detail
