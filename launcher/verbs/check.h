// `dslaunch check train.json [key=value ...]`: everything that is wrong with a configuration, and
// with the data, tokenizer and model that it names, at once.
#pragma once

#include "cli/verbs/check.h"

namespace ds {

struct CommandContext;

// Prints the report, for programs {"ok", "config", "problems": [{"path", "file", "line", "column",
// "message"}], "notes": [the same], "left_out"}. Returns 0, or 78 when there are errors. Never
// throws for what the files say; InputMissing when there is no such configuration.
int run_check(const CheckOptions& options, const CommandContext& context);

}  // namespace ds
