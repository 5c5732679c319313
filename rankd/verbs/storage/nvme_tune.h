// `dslaunch nvme-tune`: the aio section with which given disks are fastest.
#pragma once

#include "cli/verbs/storage/nvme_tune.h"

namespace ds {

// Prints progress on standard error, a table and the section. Returns the exit code; throws Error.
int run_nvme_tune(const NvmeTuneArgs& args);

}  // namespace ds
