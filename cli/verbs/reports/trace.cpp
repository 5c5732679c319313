#include "cli/verbs/reports/trace.h"

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_trace(VerbApp& app, TraceOptions& values) {
  add_run_directory(app, values.run);
  app.add_option("--steps", values.steps, "How many steps (default 3)")
      ->check(whole_check(1, 1000))
      ->type_name("N");
  app.add_option("--ranks", values.ranks, "Whose, such as 0,3 (default: of all ranks)")
      ->delimiter(',')
      ->check(whole_check(0, 1 << 16))
      ->type_name("RANKS");
  app.add_option("-o,--output", values.output,
                 "The trace (default: trace.json of the run directory)")
      ->type_name("FILE");
  app.add_flag("--json", values.json,
               "One JSON object: file, ranks, first_step, steps, events, left_out");
  app.footer(
      "Examples:\n"
      "  dslaunch trace\n"
      "  dslaunch trace runs/mine --steps 10 --ranks 0 -o mine.json\n"
      "\n"
      "Of a run that goes on: its next steps, micro-steps, modules, kernels, collectives, copies,\n"
      "swap files, updates by the host and saves, on one clock. Ctrl-C ends the trace with the "
      "step\n"
      "that runs; the run goes on.\n"
      "https://ui.perfetto.dev and chrome://tracing show the file.");
}

}  // namespace ds
