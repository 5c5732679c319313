#include "cli/verbs/watch/tail.h"

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_tail(VerbApp& app, TailOptions& values) {
  add_run_directory(app, values.run);
  app.add_option("--rank", values.rank, "This rank alone")
      ->check(whole_check(0, 1 << 16))
      ->type_name("R");
  app.add_option("-n,--lines", values.lines, "The last N lines of each rank")
      ->check(whole_check(0, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("-f,--follow", values.follow, "Go on until the run ends");
  app.add_flag("--json", values.json, "Each line as one line of JSON: ranks, time (or null), text");
  app.footer(
      "Examples:\n"
      "  dslaunch tail\n"
      "  dslaunch tail runs/mine -f\n"
      "  dslaunch tail --rank 0 -n 100\n"
      "  dslaunch tail --json\n"
      "\n"
      "Each line stands after the ranks that say it.");
}

}  // namespace ds
