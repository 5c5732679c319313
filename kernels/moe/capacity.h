// Capacity of experts: which choices are dropped where more fall on an expert than it takes, as in
// Switch Transformers (Fedus et al., arXiv 2101.03961) and GShard (Lepikhin et al., arXiv
// 2006.16668).
#pragma once

#include "kernels/moe/capacity_operands.h"

namespace ds::kernels {

// An expert keeps the choices of the largest priorities, of equal ones the first ones; NaN is the
// least priority. Without priorities it keeps the first ones. Priorities are the scores where the
// most probable choices stay, and random numbers where a random selection does. Weights of the
// choices that are left are route_weights().
void drop_over_capacity(Stream& stream, const CapacityArgs& args);

}  // namespace ds::kernels
