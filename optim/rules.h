// From the parameters of a configuration to the update rules of kernels/step/update_rules.h (pure).
#pragma once

#include "config/sections/optimizer.h"
#include "kernels/step/update_rules.h"

namespace ds {

// ConfigError: nothing is negative, and Nesterov needs a momentum and no dampening.
void check(const SgdParams& rule);

kernels::LionRule rule_of(const LionParams& params);
kernels::AdagradRule rule_of(const AdagradParams& params);
kernels::SgdRule rule_of(const SgdParams& params);  // checks them

// LAMB's trust ratio ||w|| / ||u||, clamped; 1 when either norm is 0. You et al. (arXiv
// 1904.00962).
double trust_ratio(double weight_norm, double update_norm, double least, double most);

}  // namespace ds
