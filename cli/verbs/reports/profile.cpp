#include "cli/verbs/reports/profile.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_profile(VerbApp& app, ProfileArgs& values) {
  app.add_option("config", values.config_path, "train.json")->type_name("FILE")->required();
  add_overrides(app, values.overrides);
  app.add_option("--num-ranks", values.ranks, "Ranks that the batch sizes are for; one is profiled")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--num-threads", values.threads, "CPU threads (default: all cores)")
      ->check(count_check())
      ->type_name("N");
  app.add_flag("--json", values.json, "Print one object instead of the reports");
  app.footer(
      "Examples:\n"
      "  dslaunch profile train.json\n"
      "  dslaunch profile train.json flops_profiler.module_depth=2 "
      "flops_profiler.detailed=false\n"
      "  dslaunch profile train.json --json");
  app.final_callback([&values] { check_overrides(values.overrides); });
}

}  // namespace ds
