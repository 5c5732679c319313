// `dslaunch convert` and `dslaunch merge`: weights of others as a Hugging Face folder.
#pragma once

#include "cli/verbs/convert.h"
#include "cli/verbs/merge.h"

namespace ds {

// Says what was read and written. Returns the exit code; throws Error.
int run_convert(const ConvertArgs& args);
// The same; UsageError for a source without adapters.
int run_merge(const MergeArgs& args);

}  // namespace ds
