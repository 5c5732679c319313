// The CUDA half of kernels/preference. Operands have been checked; pointers are of the device.
#pragma once

#include "kernels/preference/preference_operands.h"

namespace ds::kernels::detail {

void preference_sums_cuda(Stream& stream, const PreferenceSumsArgs& args);
void preference_loss_cuda(Stream& stream, const PreferenceLossArgs& args);

}  // namespace ds::kernels::detail
