#include "cli/verbs/schema.h"

#include "cli/verb_app.h"

namespace ds {

void describe_schema(VerbApp& app, SchemaOptions& values) {
  auto* const as_json = app.add_flag("--json", values.json, "As without it: the schema is JSON");
  app.add_flag("--markdown", values.markdown, "The same as a page to read")->excludes(as_json);
  app.footer("Examples:\n  dslaunch schema > train.schema.json\n  dslaunch schema --markdown");
}

}  // namespace ds
