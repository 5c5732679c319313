#include "cli/verbs/plan.h"

#include <CLI/CLI.hpp>

#include "cli/option_kinds.h"

namespace ds {

void describe_plan(CLI::App& app, PlanArgs& values) {
  app.add_option("config", values.config_path, "train.json")->type_name("FILE")->required();
  add_overrides(app, values.overrides);
  app.add_option("--num-ranks", values.num_ranks,
                 "Ranks to plan for (default: those that run would use)")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--num-threads", values.threads, "CPU threads per rank")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--device", values.device,
                 "Where ranks compute (default: where those of run would); cuda plans for GPUs on "
                 "any machine")
      ->check(choice_check({"cpu", "cuda"}));
  app.add_flag("--json", values.json, "Print plan.json instead of a table");
  app.footer(
      "Examples:\n"
      "  dslaunch plan train.json\n"
      "  dslaunch plan train.json --num-ranks 8 zero_optimization.stage=3 --json\n"
      "  dslaunch plan train.json --device cuda --num-ranks 64   # for GPUs that are elsewhere");
  app.final_callback([&values] { check_overrides(values.overrides); });
}

}  // namespace ds
