// `dslaunch check train.json [key=value ...]`: everything that is wrong with a configuration, at
// once.
#pragma once

#include <string>

#include "cli/verbs/check.h"

namespace ds {

struct CheckReport {
  std::string text;   // one problem a line, then a summary line
  int exit_code = 0;  // 0, or 78 when there are errors
};

// Never throws for what the file says. Throws InputMissing when there is no such file.
CheckReport check_config(const CheckOptions& options);

// Prints the report to standard output; returns the exit code.
int run_check(const CheckOptions& options);

}  // namespace ds
