#include "cli/verbs/watch/status.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_status(VerbApp& app, StatusOptions& values) {
  add_run_directory(app, values.run);
  auto* const as_json = app.add_flag("--json", values.json, "One JSON object");
  app.add_flag("--prometheus", values.prometheus, "The text format of Prometheus")
      ->excludes(as_json);
  app.footer(
      "Examples:\n"
      "  dslaunch status\n"
      "  dslaunch status runs/mine --json\n"
      "  dslaunch status --prometheus > /var/lib/node_exporter/dslaunch.prom\n"
      "\n"
      "Exit codes: 0 it runs or ended well (done, or saved and stopped), 1 it ended otherwise, 66 "
      "no\n"
      "such run.");
}

}  // namespace ds
