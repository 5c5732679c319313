// The update of rules with at most one number of state per weight, in one pass over a shard. Adam
// has a kernel of its own (kernels/update.h).
#pragma once

#include "kernels/step/update_rules.h"

namespace ds::kernels {

struct RuleArgs {
  Tensor master;      // fp32 [n], updated
  Tensor grad = {};   // [n], fp32, bf16 or fp16
  Tensor state = {};  // fp32 [n], updated; undefined where the rule has none
  Tensor copy = {};   // [n] fp32, bf16 or fp16: receives the rounded weight; or undefined
};
// One step by `scalars`; nothing where they say skip. For LionRule, AdagradRule and SgdRule.
template <class Rule>
void rule_update(Stream& stream, const RuleArgs& args, const Rule& rule,
                 const StepScalars& scalars);

}  // namespace ds::kernels
