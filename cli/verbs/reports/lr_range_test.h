// `dslaunch lr-range-test train.json`: a run of few steps in which the learning rate grows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/verbs/run.h"

namespace ds {

struct LrRangeTestArgs {
  RunArgs run;
  int64_t steps = 100;
  int64_t trial_steps = 60;  // of each run at one rate that follows; 0: none follows
  // Those of the scheduler's section, where that is an LRRangeTest; else 1e-4, a tenth of the steps
  // and 10: up to about a hundred times the first rate.
  std::optional<double> min_lr;
  std::optional<int64_t> step_size;
  std::optional<double> step_rate;
  bool staircase = false;
  bool json = false;
};

void describe_lr_range_test(VerbApp& app, LrRangeTestArgs& values);

}  // namespace ds
