// `dslaunch explain train.json [KEY] [key=value ...]`: values and where they come from.
#pragma once

#include "cli/verbs/explain.h"

namespace ds {

// Prints to standard output; returns 0, or 78 after printing when the file has errors (which go to
// standard error). Throws UsageError for an unknown key, ConfigError for a text that cannot be read
// at all.
int run_explain(const ExplainOptions& options);

}  // namespace ds
