// What the dry run found out and the real run follows.
#pragma once

#include <map>

#include "train/step/arena_plan.h"
#include "train/step_settings.h"
#include "zero/bucket_slots.h"
#include "zero/gather_plan.h"

namespace ds {

struct StepPlan {
  std::map<StepShape, StepArenaPlan> train;
  StepArenaPlan evaluate;
  GatherPlan gathers;
  BucketPlan buckets;
};

}  // namespace ds
