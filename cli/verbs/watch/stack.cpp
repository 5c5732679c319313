#include "cli/verbs/watch/stack.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_stack(VerbApp& app, StackOptions& values) {
  add_run_directory(app, values.run);
  app.add_flag("--json", values.json,
               "One JSON object: run_dir, generation, elapsed_s, waiting, and ranks, each with its "
               "place and its dump");
  app.footer(
      "Examples:\n"
      "  dslaunch stack\n"
      "  dslaunch stack runs/mine > stacks.txt\n"
      "  dslaunch stack --json\n"
      "\n"
      "The last collectives of every rank and the stack of each thread; the same goes into the "
      "ranks'\n"
      "logs. Training is not disturbed.");
}

}  // namespace ds
