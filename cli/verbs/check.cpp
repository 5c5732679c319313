#include "cli/verbs/check.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_check(VerbApp& app, CheckOptions& values) {
  app.add_option("config", values.config, "train.json, or a folder with a model or with adapters")
      ->type_name("FILE")
      ->required();
  add_overrides(app, values.overrides);
  app.add_option("--num-ranks", values.num_ranks, "Also check the batch sizes for so many ranks")
      ->check(count_check())
      ->type_name("N");
  app.add_flag("--json", values.json, "One object: ok, problems, notes; of a folder also facts");
  app.footer(
      "Of a folder it tells which model, weights, tokenizer and chat template are in it,\n"
      "and what of them is not supported; of adapters, what they are and whether they fit their\n"
      "model. The exit status is 78 where there is an error.\n\n"
      "Examples:\n  dslaunch check train.json\n  dslaunch check train.json --num-ranks 8 --json\n"
      "  dslaunch check path/to/huggingface/folder\n"
      "  dslaunch check path/to/adapters");
  app.final_callback([&values] { check_overrides(values.overrides); });
}

}  // namespace ds
