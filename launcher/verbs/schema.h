// `dslaunch schema [--markdown]`: the JSON Schema of train.json, or docs/config.md.
#pragma once

#include "cli/verbs/schema.h"

namespace ds {

// Prints to standard output; returns 0.
int run_schema(const SchemaOptions& options);

}  // namespace ds
