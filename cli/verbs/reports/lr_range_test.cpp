#include "cli/verbs/reports/lr_range_test.h"

#include "cli/number_checks.h"
#include "cli/verb_app.h"

namespace ds {

void describe_lr_range_test(VerbApp& app, LrRangeTestArgs& values) {
  describe_run(app, values.run);
  // It begins anew each time, and has something else to print.
  for (const char* const name : {"--resume", "--accept-changes", "--json"}) {
    app.remove_option(name);
  }
  const char* const group = "Test";
  app.add_option("--steps", values.steps, "Steps of the test")
      ->check(whole_check(10, int64_t{1} << 40))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_option("--min-lr", values.min_lr,
                 "lr_range_test_min_lr, the rate at the start (default: the config's, or 1e-4)")
      ->check(positive_number_check())
      ->type_name("LR")
      ->group(group);
  app.add_option("--step-size", values.step_size,
                 "lr_range_test_step_size, steps until the rate has grown by step-rate times the "
                 "first one (default: the config's, or a tenth of the steps)")
      ->check(whole_check(1, int64_t{1} << 40))
      ->type_name("N")
      ->group(group);
  app.add_option("--step-rate", values.step_rate,
                 "lr_range_test_step_rate (default: the config's, or 10)")
      ->check(positive_number_check())
      ->type_name("X")
      ->group(group);
  app.add_flag("--staircase", values.staircase,
               "lr_range_test_staircase: the rate grows every step-size steps and not every step")
      ->group(group);
  app.add_option("--trial-steps", values.trial_steps,
                 "Steps of each of the short runs at one rate that follow the test and find the "
                 "best; 0: none follows, and the curve alone tells")
      ->check(whole_check(0, int64_t{1} << 40))
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--json", values.json, "Print what was found as one object");
  app.footer(
      "Examples:\n"
      "  dslaunch lr-range-test train.json\n"
      "  dslaunch lr-range-test train.json --steps 200 --min-lr 1e-5 --step-size 20\n"
      "  dslaunch lr-range-test train.json --json zero_optimization.stage=3\n"
      "\n"
      "A run of its own, with an LRRangeTest in the place of the schedule; nothing is saved of "
      "it.\n"
      "Prints the loss over the rate, the rate at which it falls fastest and from which on it "
      "does\n"
      "not fall, and what to put into train.json. lr-range-test.svg of the run directory is the\n"
      "picture. The test ends where the loss first diverges. Short runs at one rate each follow,\n"
      "the first at the rate that the curve tells, about seven in all: the one with the lowest "
      "loss\n"
      "at its end has the rate that is recommended.");
}

}  // namespace ds
