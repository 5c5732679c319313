// The CPU half of kernels/value_loss. Operands have been checked.
#pragma once

#include "kernels/value_loss/value_loss.h"

namespace ds::kernels::detail {

void value_loss_cpu(Stream& stream, const ValueLossArgs& args);

}  // namespace ds::kernels::detail
