#include "cli/verbs/watch/top.h"

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_top(VerbApp& app, TopOptions& values) {
  add_run_directory(app, values.run);
  app.add_option("-n,--samples", values.samples, "Leave after so many (default: when the run ends)")
      ->check(whole_check(1, 1 << 30))
      ->type_name("N");
  app.add_flag("--json", values.json, "Each sample as one line of JSON, as status has it");
  app.footer(
      "Examples:\n"
      "  dslaunch top\n"
      "  dslaunch top runs/mine -n 10\n"
      "  dslaunch top runs/mine --json -n 2\n"
      "\n"
      "Ctrl-C leaves it, the run goes on. Where standard output is no terminal, and with\n"
      "--json: one sample, or N.");
}

}  // namespace ds
