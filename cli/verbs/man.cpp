#include "cli/verbs/man.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_man(VerbApp& app, ManOptions& values) {
  auto* const page = app.add_option("verb", values.page,
                                    "Print the page of this verb (default: of dslaunch itself)");
  app.add_option("--output", values.output,
                 "Write all pages into this folder: dslaunch.1, dslaunch-run.1, ...")
      ->type_name("DIR")
      ->excludes(page);
  app.add_flag("--json", values.json, "One JSON object: pages, each with name and text");
  app.footer(
      "Examples:\n"
      "  dslaunch man status > dslaunch-status.1\n"
      "  dslaunch man --output man1\n"
      "\n"
      "`dslaunch man run | man -l -` shows a page that is not installed.");
}

}  // namespace ds
