// A scheduler section and its schedule from the parameters of one type alone.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "optim/lr_schedule.h"

namespace ds::test {

using Rates = std::vector<double>;

inline SchedulerConfig scheduler_of(const LrRangeTestParams& params) {
  return {.type = SchedulerType::kLRRangeTest, .lr_range_test = params};
}
inline SchedulerConfig scheduler_of(const OneCycleParams& params) {
  return {.type = SchedulerType::kOneCycle, .one_cycle = params};
}
inline SchedulerConfig scheduler_of(const WarmupLrParams& params) {
  return {.type = SchedulerType::kWarmupLR, .warmup = params};
}
inline SchedulerConfig scheduler_of(const WarmupDecayLrParams& params) {
  return {.type = SchedulerType::kWarmupDecayLR, .warmup_decay = params};
}
inline SchedulerConfig scheduler_of(const WarmupCosineLrParams& params) {
  return {.type = SchedulerType::kWarmupCosineLR, .warmup_cosine = params};
}

template <class Params>
std::unique_ptr<LrSchedule> make_schedule(const Params& params, std::span<const double> base,
                                          MomentumSupport momentum = MomentumSupport::kBetas) {
  return make_lr_schedule(scheduler_of(params), base, momentum);
}

}  // namespace ds::test
