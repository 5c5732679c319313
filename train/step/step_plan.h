// What the dry run found out and the real run follows.
#pragma once

#include <map>

#include "train/settings/step_settings.h"
#include "train/step/arena_plan.h"
#include "zero/layout/bucket_slots.h"
#include "zero/layout/gather_plan.h"

namespace ds {

struct StepPlan {
  std::map<StepShape, StepArenaPlan> train;
  StepArenaPlan evaluate;
  GatherPlan gathers;
  BucketPlan buckets;
};

}  // namespace ds
