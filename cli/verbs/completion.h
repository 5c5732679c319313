// `dslaunch completion bash|zsh|fish`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ds {

struct CompletionOptions {
  std::string shell;  // bash, zsh, fish
  bool json = false;
};

void describe_completion(CLI::App& app, CompletionOptions& values);

}  // namespace ds
