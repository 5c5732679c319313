// `dslaunch lr-range-test train.json`: trains with a rate that grows and says which are good.
#pragma once

#include "cli/verbs/reports/lr_range_test.h"
#include "launcher/verbs/run.h"

namespace ds {

// Returns the exit code. A run that ends because of its loss is what the test looks for.
int run_lr_range_test(const LrRangeTestArgs& args, const CommandContext& context);

}  // namespace ds
