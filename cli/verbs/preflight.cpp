#include "cli/verbs/preflight.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_preflight(VerbApp& app, PreflightArgs& values) {
  RunArgs& run = values.run;
  app.add_option("config", run.config, "train.json: what the job needs is then checked, too")
      ->type_name("FILE");
  add_overrides(app, run.overrides);
  app.add_option("--num-ranks", run.num_ranks, "Ranks on this machine, without hosts")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--num-threads", run.num_threads, "CPU threads per rank")
      ->check(count_check())
      ->type_name("N");
  app.add_flag("--accept-changes", run.accept_changes, kAcceptChanges);
  app.add_option("--run-dir", run.run_dir, "Where the run will lie (default: below runs/)")
      ->type_name("DIR");
  describe_hosts(app, run.hosts);
  describe_devices(app, run);
  app.add_flag("--json", values.json,
               "One JSON object: ok, and for each host its facts and findings");
  app.footer(
      "Examples:\n"
      "  dslaunch preflight train.json\n"
      "  dslaunch preflight --hostfile hosts train.json --run-dir /shared/runs/one\n"
      "  dslaunch preflight --hostfile hosts --json\n"
      "\n"
      "0: every host can be used; 69: at least one cannot. Every run begins with a short form of "
      "this.");
  app.final_callback([&run] { check_overrides(run.overrides); });
}

}  // namespace ds
