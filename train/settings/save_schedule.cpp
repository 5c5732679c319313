#include "train/settings/save_schedule.h"

#include <algorithm>
#include <cmath>

namespace ds {

bool SaveSchedule::wants(int64_t step) const {
  return is_due(step) || (retry_at_ && step >= *retry_at_);
}

void SaveSchedule::saved() {
  due_failures_ = 0;
  tries_ = 0;
  retry_at_.reset();
}

bool SaveSchedule::failed(int64_t step, double seconds_per_step) {
  constexpr double kFirstWait = 1.0;  // seconds; doubled with each try
  constexpr double kLongestWait = 60.0;
  if (is_due(step) && ++due_failures_ >= kMostFailures) return false;
  const double wait = std::min(kLongestWait, std::ldexp(kFirstWait, std::min(tries_, 10)));
  ++tries_;
  const double steps = seconds_per_step > 0 ? wait / seconds_per_step : 1.0;
  retry_at_ = step + std::max<int64_t>(1, static_cast<int64_t>(std::min(steps, 1e9)));
  return true;
}

}  // namespace ds
