// The CUDA half of kernels/update. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/optimizer/update.h"

namespace ds::kernels::detail {

void adam_update_cuda(Stream& stream, const AdamArgs& args, const StepScalars& scalars);

}  // namespace ds::kernels::detail
