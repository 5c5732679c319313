// The cores of this machine as hwloc finds them: what the kernel and the control group let this
// process use, with the memory node and package of each. Refuses to plan with them.
#pragma once

#include <vector>

#include "launcher/decide/core_plan.h"

namespace ds {

// Throws Unsupported where hwloc cannot read this machine.
std::vector<PhysicalCore> machine_cores();

}  // namespace ds
