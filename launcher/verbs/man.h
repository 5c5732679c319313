// `dslaunch man`: the manual pages, printed or written.
#pragma once

#include "cli/verbs/man.h"

namespace ds {

// Returns 0. Throws UsageError for a verb that there is not, IoError where a page cannot be
// written.
int run_man(const ManOptions& options);

}  // namespace ds
