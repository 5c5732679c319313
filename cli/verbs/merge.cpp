#include "cli/verbs/merge.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_merge(VerbApp& app, MergeArgs& values) {
  app.add_option(
         "source", values.source,
         "A folder of adapters (adapter_config.json and adapter_model.safetensors or .bin), "
         "or a run of dslaunch with a section lora, or one of its checkpoints")
      ->type_name("SRC")
      ->required();
  add_destination(app, values.destination);
  add_base(app, values.base);
  app.add_option("--to", values.to,
                 "hf: a Hugging Face folder with config.json and safetensors; bin: the same with "
                 "pytorch_model.bin")
      ->check(choice_check({"hf", "bin"}))
      ->type_name("KIND")
      ->capture_default_str();
  add_dtype(app, values.dtype, "Of the weights that are written: fp32, bf16, fp16")
      ->capture_default_str();
  app.add_flag("--json", values.json, "Print one JSON object");
  app.footer(
      "DST is a model like any other, with W + s B A in the place of each weight W that has an\n"
      "adapter; the sums are made in fp32 and rounded once. One tensor at a time is in memory.\n"
      "\n"
      "Examples:\n"
      "  dslaunch merge path/to/adapters merged\n"
      "  dslaunch merge path/to/adapters merged_bf16 --base path/to/model --dtype bf16\n"
      "  dslaunch merge runs/adapted merged_run --to bin --json");
}

}  // namespace ds
