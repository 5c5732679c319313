// `dslaunch convert`: weights of others as a Hugging Face folder.
#pragma once

#include "cli/verbs/convert.h"

namespace ds {

// Says what was read and written. Returns the exit code; throws Error.
int run_convert(const ConvertArgs& args);

}  // namespace ds
