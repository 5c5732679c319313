#include "cli/verbs/eval.h"

#include <limits>

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_eval(VerbApp& app, EvalArgs& values) {
  const ValueCheck positive = whole_check(1, std::numeric_limits<int64_t>::max());
  add_model_source(app, values.source);
  app.add_option("--data", values.data,
                 "Text or JSON lines (also .gz, .zst), token files, folders, patterns")
      ->type_name("FILE")
      ->required();
  app.add_option("--field", values.field, "The text's, of JSON lines")
      ->type_name("KEY")
      ->capture_default_str();
  app.add_option("--seq-length", values.length,
                 "Tokens of a window (default: the model's positions)")
      ->check(positive)
      ->type_name("N");
  app.add_option("--stride", values.stride, "Tokens from window to window (default: no overlap)")
      ->check(positive)
      ->type_name("N");
  app.add_option("--batch", values.batch, "Windows at a time")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  add_tokenizer_of_model(app, values.tokenizer);
  add_dtype(app, values.dtype, "To compute in: fp32, bf16, fp16")->capture_default_str();
  add_device(app, values.device);
  app.add_option("--num-threads", values.threads, "CPU threads (default: one per core)")
      ->check(count_check())
      ->type_name("N");
  app.add_flag("--json", values.json, "Print one JSON object");
  app.footer(
      "Every token but the first is predicted once. The loss is the mean of -ln p over them, bits "
      "per byte\n"
      "the sum of -log2 p over the bytes of the text.\n"
      "\n"
      "Examples:\n"
      "  dslaunch eval runs/latest --data held_out.txt\n"
      "  dslaunch eval path/to/huggingface/folder --data docs.jsonl.gz --stride 512 --json\n"
      "  dslaunch eval runs/latest --data held_out.txt --device cuda --dtype bf16 --batch 8");
}

}  // namespace ds
