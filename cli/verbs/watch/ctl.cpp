#include "cli/verbs/watch/ctl.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_ctl(VerbApp& app, CtlOptions& values) {
  app.add_option("order", values.order,
                 "save: a checkpoint, and on; stop: save and exit 75; pause; resume; join: "
                 "read the hostfile again and grow onto hosts that are new or back")
      ->required()
      ->check(choice_check({"save", "stop", "pause", "resume", "join"}));
  add_run_directory(app, values.run);
  app.add_flag("--json", values.json, "One JSON object: notice, and the status as status has it");
  app.footer(
      "Examples:\n"
      "  dslaunch ctl save\n"
      "  dslaunch ctl pause runs/mine\n"
      "  dslaunch ctl resume runs/mine\n"
      "  dslaunch ctl stop\n"
      "\n"
      "Each order is carried out at the end of a step.");
}

}  // namespace ds
