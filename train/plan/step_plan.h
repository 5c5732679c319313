// What the dry run found out and the real run follows.
#pragma once

#include "core/memory/replay_arena.h"
#include "zero/bucket_slots.h"
#include "zero/gather_plan.h"

namespace ds {

struct StepPlan {
  ArenaPlan train;  // allocations of one micro-step
  ArenaPlan evaluate;
  GatherPlan gathers;
  BucketPlan buckets;
};

}  // namespace ds
