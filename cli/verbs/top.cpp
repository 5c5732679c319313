#include "cli/verbs/top.h"

#include <CLI/CLI.hpp>

#include "cli/option_kinds.h"

namespace ds {

void describe_top(CLI::App& app, TopOptions& values) {
  add_run_directory(app, values.run);
  app.add_option("-n,--samples", values.samples, "Leave after so many (default: when the run ends)")
      ->check(CLI::Range(1, 1 << 30).description(""))
      ->type_name("N");
  app.footer(
      "Examples:\n"
      "  dslaunch top\n"
      "  dslaunch top runs/mine -n 10\n"
      "\n"
      "Ctrl-C leaves it, the run goes on. Where standard output is no terminal: one sample, or N.");
}

}  // namespace ds
