#include "cli/verbs/eval.h"

#include <limits>

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"
#include "core/status/error.h"

namespace ds {
namespace {

void describe_embedding(VerbApp& app, EmbedArgs& values) {
  app.add_flag("--embed", values.embeds, "Make a vector of each text of --prompts");
  app.add_option("--prompts", values.texts,
                 "With --embed: JSON lines with \"text\" or \"prompt\" (-: standard input)")
      ->type_name("FILE");
  app.add_flag("--lines", values.lines, "With --prompts: each line of the file is a text");
  app.add_option(
         "--pooling", values.pooling,
         "Of the tokens' vectors: mean, cls (the first), last (default: as the folder says, "
         "else mean)")
      ->check(choice_check({"mean", "cls", "last"}))
      ->type_name("KIND");
  app.add_option("--normalize", values.normalize,
                 "yes: vectors of length 1; no: as they are (default: as the folder says, else no)")
      ->check(choice_check({"yes", "no"}))
      ->type_name("CHOICE");
}

void check_together(const EvalArgs& args) {
  const EmbedArgs& embed = args.embed;
  if (embed.embeds) {
    if (embed.texts.empty()) {
      throw UsageError("eval: --embed needs --prompts FILE, the texts to make vectors of");
    }
    if (args.label || args.text_pair || args.field) {
      throw UsageError(
          "eval: --field, --label and --text-pair are of --data, which --embed has not");
    }
    if (!args.data.empty() || args.stride) {
      throw UsageError("eval: --embed makes vectors of --prompts; leave --data and --stride out");
    }
    return;
  }
  if (!embed.texts.empty() || embed.lines || !embed.pooling.empty() || !embed.normalize.empty()) {
    throw UsageError("eval: --prompts, --lines, --pooling and --normalize are for --embed");
  }
  if (args.data.empty()) throw UsageError("eval: --data is missing, the text to predict");
}

}  // namespace

void describe_eval(VerbApp& app, EvalArgs& values) {
  const ValueCheck positive = whole_check(1, std::numeric_limits<int64_t>::max());
  add_model_source(app, values.source);
  add_base(app, values.base);
  app.add_option("--data", values.data,
                 "Text or JSON lines (also .gz, .zst), token files, folders, patterns")
      ->type_name("FILE");
  app.add_option("--field", values.field, "The text's, of JSON lines (default: text)")
      ->type_name("KEY");
  app.add_option("--label", values.label,
                 "Of records with classes: the class's (default: as the run says, else label, or "
                 "ner_tags)")
      ->type_name("KEY");
  app.add_option("--text-pair", values.text_pair, "Of pairs of texts with classes: the second's")
      ->type_name("KEY");
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
  app.add_flag("--json", values.json, "Print one JSON object; with --embed one for each text");
  describe_embedding(app, values.embed);
  app.footer(
      "Every token but the first is predicted once. The loss is the mean of -ln p over them, bits "
      "per byte\n"
      "the sum of -log2 p over the bytes of the text. With --embed it makes a vector of each "
      "text.\n"
      "Of a model that scores classes it tells how many of the records of --data are scored "
      "right,\n"
      "class by class; the loss is the mean of -ln p of their classes. Of one that tells numbers "
      "it gives\n"
      "mean absolute errors and correlations, and of one that scores several classes at once "
      "F1.\n"
      "\n"
      "Examples:\n"
      "  dslaunch eval runs/latest --data held_out.txt\n"
      "  dslaunch eval path/to/huggingface/folder --data docs.jsonl.gz --stride 512 --json\n"
      "  dslaunch eval runs/latest --data held_out.txt --device cuda --dtype bf16 --batch 8\n"
      "  dslaunch eval path/to/adapters --base path/to/model --data held_out.txt\n"
      "  dslaunch eval runs/classes --data test.tsv --field sentence --json\n"
      "  dslaunch eval path/to/huggingface/folder --embed --prompts prompts.jsonl --json");
  app.final_callback([&values] { check_together(values); });
}

}  // namespace ds
