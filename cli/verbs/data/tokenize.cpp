#include "cli/verbs/data/tokenize.h"

#include <limits>

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/verb_app.h"
#include "core/status/error.h"

namespace ds {
namespace {

void describe_files(VerbApp& app, TokenFileArgs& values) {
  app.add_option("--output", values.output,
                 "Write the ids of --file into PREFIX.bin and others, for training")
      ->type_name("PREFIX");
  app.add_option("--format", values.format,
                 "megatron (PREFIX.bin, PREFIX.idx; the default), deepspeed (the same by "
                 "DeepSpeed's type codes), llmc (PREFIX_000000.bin, ...)")
      ->check(choice_check({"megatron", "deepspeed", "llmc"}))
      ->type_name("NAME");
  app.add_option("--field", values.field, "The field of JSON lines (default: text)")
      ->type_name("NAME");
  app.add_option("--separator", values.separator,
                 "Put after each document; \"\": nothing (default: as data.separator)")
      ->type_name("TEXT");
  app.add_option("--shard-tokens", values.shard_tokens,
                 "Tokens of a shard of llmc, at most (default: 100000000)")
      ->check(whole_check(1, std::numeric_limits<int32_t>::max()))
      ->type_name("N");
  app.add_option("--num-threads", values.threads, "CPU threads that encode (default: one per core)")
      ->check(count_check())
      ->type_name("N");
  app.add_flag("--force", values.force, "Replace files of that PREFIX");
}

void check_conversations(const TokenizeArgs& args) {
  check_chat(args.chat);
  if (args.chat.is_chat) {
    if (!args.decode && !args.special_tokens && !args.to_files.output &&
        !(args.render && (args.count || args.json))) {
      return;
    }
    throw UsageError(
        "--chat excludes --decode, --special-tokens (the template writes them) and --output; "
        "--render excludes --count and --json");
  }
  if (args.generation_prompt || args.render) {
    throw UsageError("--generation-prompt and --render are about conversations: give --chat");
  }
}

void check_prefix(const std::string& prefix) {
  const std::string name = prefix.substr(prefix.rfind('/') + 1);
  if (name.empty() || name == "." || name == "..") {
    throw UsageError(fmt::format(
        "--output \"{}\" is no beginning of names of files; expected one such as data/corpus",
        prefix));
  }
  for (const std::string_view ending : {".bin", ".idx"}) {
    if (!name.ends_with(ending)) continue;
    throw UsageError(
        fmt::format("--output {}: leave {} out, it is put behind PREFIX", prefix, ending));
  }
}

void check_files(const TokenizeArgs& args) {
  const TokenFileArgs& to = args.to_files;
  if (!to.output) {
    if (to.format || to.field || to.separator || to.shard_tokens || to.threads || to.force) {
      throw UsageError(
          "--format, --field, --separator, --shard-tokens, --num-threads and --force are about the "
          "files that --output PREFIX names");
    }
    return;
  }
  check_prefix(*to.output);
  if (args.decode || args.count || args.special_tokens) {
    throw UsageError("--output excludes --decode, --count and --special-tokens");
  }
  if (!args.texts.empty() || args.files.empty()) {
    throw UsageError("--output takes texts from --file only, which may be a folder or a pattern");
  }
  if (to.shard_tokens && to.format != "llmc") {
    throw UsageError("--shard-tokens: only --format llmc has shards");
  }
}

}  // namespace

void describe_tokenize(VerbApp& app, TokenizeArgs& values) {
  app.add_option("text", values.texts, "Texts; without them and without --file: standard input")
      ->type_name("TEXT");
  app.add_option("--tokenizer", values.tokenizer,
                 "byte, a tokenizer's file, a folder with one, a run directory or tag")
      ->type_name("NAME")
      ->required();
  app.add_option("--file", values.files, "A file with one text, also .gz and .zst. May be repeated")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_flag("--lines", values.lines,
               "Each line of files and standard input is a text of its own");
  app.add_flag("--special-tokens", values.special_tokens,
               "With what the tokenizer puts around a text");
  app.add_flag("--decode", values.decode, "From ids to texts; not with --special-tokens, --count");
  app.add_flag("--count", values.count, "Only how many tokens each text has");
  app.add_flag("--json", values.json,
               "One object per text: ids, tokens and their number; with --output one of the files");
  add_chat(
      app, values.chat,
      "Each text is a conversation: JSON messages, or an object with \"messages\", \"tools\" ...");
  app.add_flag("--generation-prompt", values.generation_prompt,
               "With --chat: until where a reply begins");
  app.add_flag("--render", values.render, "With --chat: print the text and no ids");
  describe_files(app, values.to_files);
  app.footer(
      "Prints one line of ids per text. A text is taken as it is, with its line breaks.\n"
      "With --output each --file is what an entry of data.train may be (text, JSON lines, .gz, "
      ".zst, "
      "a\n"
      "folder, a pattern), and training on PREFIX is training on these texts.\n"
      "\n"
      "Examples:\n"
      "  dslaunch tokenize --tokenizer path/to/huggingface/folder \"Hello, world\"\n"
      "  dslaunch tokenize --tokenizer runs/latest --count --file corpus.txt\n"
      "  echo 15496 11 995 | dslaunch tokenize --tokenizer tokenizer.json --decode\n"
      "  dslaunch tokenize --tokenizer gpt2/ --file 'corpus/*.jsonl' --output corpus_ids\n"
      "  dslaunch tokenize --tokenizer gpt2/ --file corpus.txt --lines --output train --format "
      "llmc\n"
      "  dslaunch tokenize --tokenizer qwen3/ --chat --render '[{\"role\": \"user\", \"content\": "
      "\"Hi\"}]'");
  // CLI11's own rule would list the options in the help in the order of their addresses.
  app.final_callback([&values] {
    if (values.decode && (values.special_tokens || values.count)) {
      throw UsageError("--decode excludes --special-tokens and --count");
    }
    check_files(values);
    check_conversations(values);
  });
}

}  // namespace ds
