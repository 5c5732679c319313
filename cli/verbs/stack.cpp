#include "cli/verbs/stack.h"

#include <CLI/CLI.hpp>

#include "cli/option_kinds.h"

namespace ds {

void describe_stack(CLI::App& app, StackOptions& values) {
  add_run_directory(app, values.run);
  app.footer(
      "Examples:\n"
      "  dslaunch stack\n"
      "  dslaunch stack runs/mine > stacks.txt\n"
      "\n"
      "The last collectives of every rank and the stack of each thread; the same goes into the ranks'\n"
      "logs. Training is not disturbed.");
}

}  // namespace ds
