// `dslaunch completion bash|zsh|fish`.
#pragma once

#include <string>

namespace ds {

class VerbApp;

struct CompletionOptions {
  std::string shell;  // bash, zsh, fish
  bool json = false;
};

void describe_completion(VerbApp& app, CompletionOptions& values);

}  // namespace ds
