#include "cli/verbs/reports/report.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_report(VerbApp& app, ReportOptions& values) {
  add_run_directory(app, values.run);
  app.add_option("--output", values.output, "The page (default: report.html of the run directory)")
      ->type_name("FILE");
  app.add_flag("--json", values.json, "Where the page is, as an object");
  app.footer(
      "Examples:\n"
      "  dslaunch report\n"
      "  dslaunch report runs/mine --output mine.html\n"
      "\n"
      "The page needs no network and no other file. A run that goes on has one, too.");
}

}  // namespace ds
