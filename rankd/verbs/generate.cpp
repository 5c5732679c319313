#include "rankd/verbs/generate.h"

#include <unistd.h>

#include <iostream>

#include "cli/text/terminal_text.h"
#include "core/files/input_files.h"
#include "generate/generator.h"
#include "generate/stage_steps.h"
#include "rankd/verbs/talk.h"
#include "rankd/verbs/terminal/input_texts.h"

namespace ds {
namespace {

void note_now(const std::string& line) { say(stderr, "{}\n", line); }

// The terminal's own line editing reads it.
std::optional<std::string> typed_line(const std::string& asking) {
  print_now(asking);
  std::string line;
  if (std::getline(std::cin, line)) return line;
  print_now("\n");
  return std::nullopt;
}

}  // namespace

int run_generate(const GenerateArgs& args) {
  if (asks_for_ranks(args))
    throw UsageError("generate: rankd is one process; dslaunch starts ranks");
  RealFileSystem real;
  InputFiles files(real);
  if (is_talk(args, isatty(STDIN_FILENO) == 1)) {
    talk(files, args, {.line = typed_line, .print = print_now, .note = note_now});
    return static_cast<int>(ExitCode::kDone);
  }
  std::vector<PromptRecord> prompts = prompt_records(args);
  const ModelSource source = open_model_source(files, {args.source, args.base});
  const GenerationTask task = generation_task(files, source, args, std::move(prompts));
  OneStage model(source, task, args);
  generate(model, task, args, {.print = print_now, .note = note_now});
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
