#include "launcher/verbs/completion.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/completion/script.h"
#include "cli/text/terminal_text.h"
#include "launcher/decide/text/json_text.h"

namespace ds {

int run_completion(const CompletionOptions& options) {
  const Shell shell = options.shell == "bash"  ? Shell::kBash
                      : options.shell == "zsh" ? Shell::kZsh
                                               : Shell::kFish;
  const std::string script = completion_script(shell, outlines(), completed_keys());
  if (options.json) {
    say("{}\n", JsonObject().text("shell", options.shell).text("script", script).str());
  } else {
    say("{}", script);
  }
  return 0;
}

}  // namespace ds
