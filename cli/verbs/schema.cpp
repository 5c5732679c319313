#include "cli/verbs/schema.h"

#include <CLI/CLI.hpp>

namespace ds {

void describe_schema(CLI::App& app, SchemaOptions& values) {
  app.add_flag("--markdown", values.markdown, "The same as a page to read");
  app.footer("Examples:\n  dslaunch schema > train.schema.json\n  dslaunch schema --markdown");
}

}  // namespace ds
