#include "cli/verbs/data/look_at_data.h"

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_look_at_data(VerbApp& app, LookAtDataArgs& values) {
  app.add_option("config", values.config_path, "train.json")->type_name("FILE")->required();
  add_overrides(app, values.overrides);
  app.add_option("--count", values.count, "How many samples are shown (default: 3)")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--sample", values.sample, "The first of them, in the order of the files")
      ->check(number_check(0, 1e15))
      ->type_name("N");
  app.add_flag("--validation", values.validation, "Samples of evaluations, not of training");
  app.add_flag("--json", values.json, "One object a line for each sample");
  app.footer(
      "Shows samples as a model is given them, after chat template, tokenizer, cutting and "
      "packing.\n"
      "On a terminal what is learnt stands out in colour; elsewhere it stands in double brackets.\n"
      "\n"
      "Examples:\n"
      "  dslaunch look-at-data train.json\n"
      "  dslaunch look-at-data train.json --sample 40 --count 1\n"
      "  dslaunch look-at-data train.json --count 100 --json");
}

}  // namespace ds
