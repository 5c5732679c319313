#include "cli/verbs/generate.h"

#include <CLI/CLI.hpp>

#include "cli/option_kinds.h"

namespace ds {
namespace {

void describe_drawing(CLI::App& app, GenerateArgs& values) {
  app.add_option("--temperature", values.temperature, "0 takes the likeliest token")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("T")
      ->capture_default_str();
  app.add_option("--top-k", values.top_k, "Draw from the k likeliest tokens; 0: from all")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("K")
      ->capture_default_str();
  app.add_option("--top-p", values.top_p,
                 "Draw from the likeliest tokens that make up the probability p; 1: from all")
      ->check(CLI::Range(1e-9, 1.0).description(""))
      ->type_name("P")
      ->capture_default_str();
  app.add_option("--seed", values.seed, "Same seed, same text")
      ->type_name("SEED")
      ->capture_default_str();
}

}  // namespace

void describe_generate(CLI::App& app, GenerateArgs& values) {
  add_model_source(app, values.source);
  app.add_option("--prompt", values.prompts,
                 "Text to continue; -, or none: standard input. May be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  app.add_flag("--lines", values.lines, "Each line of standard input is a prompt of its own");
  app.add_option("--max-tokens", values.max_tokens, "Tokens to add at most")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--stop", values.stops, "The text ends before this one. May be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  describe_drawing(app, values);
  add_tokenizer_of_model(app, values.tokenizer);
  add_dtype(app, values.dtype,
            "To compute in: fp32, bf16, fp16 (default: bf16 if the weights are, else fp32)");
  app.add_option("--num-threads", values.threads, "CPU threads (default: one per core)")
      ->check(count_check())
      ->type_name("N");
  app.add_flag("--json", values.json,
               "One object per prompt: text, ids, counts, why it ended, tokens per second");
  app.footer(
      "A text ends at the model's end-of-text tokens, before a --stop, or after --max-tokens.\n"
      "\n"
      "Examples:\n"
      "  dslaunch generate runs/latest --prompt \"In the beginning\"\n"
      "  dslaunch generate path/to/huggingface/folder --prompt \"Hello\" --temperature 0\n"
      "  dslaunch generate runs/latest --lines --top-p 0.9 --stop \".\" --json < prompts.txt");
}

}  // namespace ds
