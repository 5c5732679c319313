// The CUDA half of hidden_loss.h. Operands have been checked.
#pragma once

#include "kernels/value_loss/hidden_loss_operands.h"

namespace ds::kernels::detail {

void hidden_loss_cuda(Stream& stream, const HiddenLossArgs& args);

}  // namespace ds::kernels::detail
