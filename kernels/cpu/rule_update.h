// The CPU half of kernels/step/rule_update. Operands have been checked.
#pragma once

#include "kernels/step/rule_update.h"

namespace ds::kernels::detail {

// For the same rules.
template <class Rule>
void rule_update_cpu(Stream& stream, const RuleArgs& args, const Rule& rule,
                     const StepScalars& scalars);

}  // namespace ds::kernels::detail
