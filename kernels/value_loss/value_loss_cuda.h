// The CUDA half of kernels/value_loss. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/value_loss/value_loss.h"

namespace ds::kernels::detail {

void value_loss_cuda(Stream& stream, const ValueLossArgs& args);

}  // namespace ds::kernels::detail
