#include "cli/verbs/generate.h"

#include <CLI/CLI.hpp>

#include "cli/option_kinds.h"

namespace ds {

void describe_generate(CLI::App& app, GenerateArgs& values) {
  app.add_option("source", values.source, "Run directory, checkpoint tag, or Hugging Face folder")
      ->type_name("DIR")
      ->required();
  app.add_option("--prompt", values.prompt, "Text to continue")->required();
  app.add_option("--tokenizer", values.tokenizer,
                 "\"byte\", a tokenizer.json, or a folder with one, instead of the source's own")
      ->type_name("PATH");
  app.add_option("--max-tokens", values.max_tokens, "Tokens to add")
      ->check(CLI::PositiveNumber.description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--temperature", values.temperature, "0 takes the likeliest token")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("T")
      ->capture_default_str();
  app.add_option("--top-k", values.top_k, "Draw from the k likeliest tokens; 0: from all")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("K")
      ->capture_default_str();
  app.add_option("--seed", values.seed, "Same seed, same text")->type_name("SEED")->capture_default_str();
  app.add_option("--num-threads", values.threads, "CPU threads (default: one per core)")
      ->check(count_check())
      ->type_name("N");
  app.footer(
      "Examples:\n"
      "  dslaunch generate runs/latest --prompt \"In the beginning\"\n"
      "  dslaunch generate path/to/huggingface/folder --prompt \"Hello\" --temperature 0");
}

}  // namespace ds
