// The CPU half of kernels/update. Operands have been checked.
#pragma once

#include "kernels/optimizer/update.h"

namespace ds::kernels::detail {

void adam_update_cpu(Stream& stream, const AdamArgs& args, const StepScalars& scalars);

}  // namespace ds::kernels::detail
