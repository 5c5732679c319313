#include "rankd/verbs/generate.h"

#include "cli/text/terminal_text.h"
#include "core/files/input_files.h"
#include "generate/generator.h"
#include "generate/stage_steps.h"
#include "rankd/verbs/input_texts.h"

namespace ds {

int run_generate(const GenerateArgs& args) {
  if (asks_for_ranks(args))
    throw UsageError("generate: rankd is one process; dslaunch starts ranks");
  std::vector<PromptRecord> prompts = prompt_records(args);
  RealFileSystem real;
  InputFiles files(real);
  const ModelSource source = open_model_source(files, args.source);
  const GenerationTask task = generation_task(files, source, args, std::move(prompts));
  OneStage model(source, task, args);
  generate(model, task, args, {.print = print_now, .note = [](const std::string& line) {
                                 say(stderr, "{}\n", line);
                               }});
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
