// `dslaunch schema [--markdown]`: the JSON Schema of train.json, or docs/config.md.
#pragma once

namespace ds {

enum class SchemaForm { kJsonSchema, kMarkdown };

// Prints to standard output; returns 0.
int run_schema(SchemaForm form);

}  // namespace ds
