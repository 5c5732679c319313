// From the parameters of a configuration to the update rules of kernels/optimizer/update_rules.h
// (pure).
#pragma once

#include "config/sections/optimizer.h"
#include "kernels/optimizer/update_rules.h"
#include "optim/param_groups.h"

namespace ds {

// ConfigError: nothing is negative, and Nesterov needs a momentum and no dampening.
void check(const SgdParams& rule);

// The rate's scale and the weight decay are those of a group.
kernels::LionRule rule_of(const LionParams& params, const GroupOptions& group);
kernels::AdagradRule rule_of(const AdagradParams& params, const GroupOptions& group);
kernels::SgdRule rule_of(const SgdParams& params, const GroupOptions& group);  // checks them
kernels::RmspropRule rule_of(const RmspropParams& params, const GroupOptions& group);

}  // namespace ds
