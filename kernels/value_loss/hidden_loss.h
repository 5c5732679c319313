// The distance of a student's hidden states from those of its teacher.
#pragma once

#include "kernels/value_loss/hidden_loss_operands.h"

namespace ds::kernels {

void hidden_loss(Stream& stream, const HiddenLossArgs& args);

}  // namespace ds::kernels
