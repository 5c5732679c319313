// The CPU half of kernels/step/rule_update. Operands have been checked.
#pragma once

#include "kernels/optimizer/rule_update.h"

namespace ds::kernels::detail {

// For the same rules.
template <class Rule>
void rule_update_cpu(Stream& stream, const RuleArgs& args, const Rule& rule,
                     const StepScalars& scalars);

void unpack_state_cpu(Stream& stream, const StateTensor& state, const Tensor& numbers);
void pack_state_cpu(Stream& stream, const Tensor& numbers, const StateTensor& state);

}  // namespace ds::kernels::detail
