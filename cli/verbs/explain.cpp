#include "cli/verbs/explain.h"

#include <fmt/format.h>

#include "cli/option_kinds.h"
#include "cli/verb_app.h"
#include "core/status/error.h"

namespace ds {
namespace {

void sort_words(ExplainOptions& values) {
  for (const std::string& word : values.words) {
    if (word.starts_with('~') || word.find('=') != std::string::npos) {
      values.overrides.push_back(word);
    } else if (values.key) {
      throw UsageError(
          fmt::format("'{}': one key at a time, '{}' is already asked for", word, *values.key));
    } else {
      values.key = word;
    }
  }
}

}  // namespace

void describe_explain(VerbApp& app, ExplainOptions& values) {
  app.add_option(
         "config", values.config,
         "train.json; or the key alone, to see what each optimizer, schedule and family has")
      ->type_name("FILE|KEY")
      ->required();
  app.add_option("words", values.words, "One key to explain, and key.path=value overrides")
      ->type_name("[KEY] [KEY=VALUE ...]");
  app.add_option("--num-ranks", values.num_ranks, "Ranks that complete the batch sizes")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--json", values.json,
               "One JSON object: values, each with path, value and origin; keys, what there is to "
               "know of the one that is named; and errors");
  app.footer(
      "Examples:\n"
      "  dslaunch explain train.json\n"
      "  dslaunch explain train.json zero_optimization.stage\n"
      "  dslaunch explain optimizer.params.lr\n"
      "  dslaunch explain model.vocab_size model.family=llama\n"
      "  dslaunch explain train.json train_batch_size --num-ranks 4 gradient_accumulation_steps=2\n"
      "  dslaunch explain train.json optimizer --json");
  app.final_callback([&values] { sort_words(values); });
}

}  // namespace ds
