#include "cli/verbs/env.h"

#include "cli/verb_app.h"

namespace ds {

void describe_env(VerbApp& app, EnvOptions& options) {
  app.add_flag("--json", options.json, "One JSON object; null is what could not be found out");
  app.footer(
      "Examples:\n"
      "  dslaunch env\n"
      "  dslaunch env --json > env.json");
}

}  // namespace ds
