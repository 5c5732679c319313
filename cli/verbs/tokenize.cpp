#include "cli/verbs/tokenize.h"

#include "cli/verb_app.h"
#include "core/status/error.h"

namespace ds {

void describe_tokenize(VerbApp& app, TokenizeArgs& values) {
  app.add_option("text", values.texts, "Texts; without them and without --file: standard input")
      ->type_name("TEXT");
  app.add_option("--tokenizer", values.tokenizer,
                 "byte, tokenizer.json, a folder with one, a run directory or tag")
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
  app.add_flag("--json", values.json, "One object per text: ids, tokens and their number");
  app.footer(
      "Prints one line of ids per text. A text is taken as it is, with its line breaks.\n"
      "\n"
      "Examples:\n"
      "  dslaunch tokenize --tokenizer path/to/huggingface/folder \"Hello, world\"\n"
      "  dslaunch tokenize --tokenizer runs/latest --count --file corpus.txt\n"
      "  echo 15496 11 995 | dslaunch tokenize --tokenizer tokenizer.json --decode");
  // CLI11's own rule would list the options in the help in the order of their addresses.
  app.final_callback([&values] {
    if (values.decode && (values.special_tokens || values.count)) {
      throw UsageError("--decode excludes --special-tokens and --count");
    }
  });
}

}  // namespace ds
