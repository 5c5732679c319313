// Whether a plan stays within what ranks may take, said before anything of it is allocated.
#pragma once

#include "core/memory/adaptors.h"
#include "train/plan/dry_run.h"

namespace ds {

// ConfigError where a rank needs more of a tier than memory.device_limit or memory.host_limit
// allow: which rank, how much of what, and what would need less.
void require_within(const RunPlan& plan, const MemoryLimits& limits);

}  // namespace ds
