#include "cli/verbs/completion.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_completion(VerbApp& app, CompletionOptions& values) {
  app.add_option("shell", values.shell, "Who is to complete the words")
      ->required()
      ->check(choice_check({"bash", "zsh", "fish"}));
  app.add_flag("--json", values.json, "One JSON object: shell, script");
  app.footer(
      "Examples:\n"
      "  dslaunch completion bash > dslaunch.bash\n"
      "  dslaunch completion zsh > _dslaunch\n"
      "  dslaunch completion fish > dslaunch.fish\n"
      "\n"
      "bash: source the file, or put it into ~/.local/share/bash-completion/completions/dslaunch.\n"
      "zsh: into a folder of $fpath, as _dslaunch. fish: into ~/.config/fish/completions/.");
}

}  // namespace ds
