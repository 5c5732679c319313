// The CPU half of kernels/preference. Operands have been checked.
#pragma once

#include "kernels/preference/preference_operands.h"

namespace ds::kernels::detail {

void preference_sums_cpu(Stream& stream, const PreferenceSumsArgs& args);
void preference_loss_cpu(Stream& stream, const PreferenceLossArgs& args);

}  // namespace ds::kernels::detail
