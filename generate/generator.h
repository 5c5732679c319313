// Continues all prompts of a task, each as often as there are samples, as many at once as the model
// takes, and prints them in their order.
#pragma once

#include <functional>
#include <string>

#include "generate/next_tokens.h"
#include "generate/task.h"

namespace ds {

struct GenerationOutput {
  std::function<void(const std::string&)> print;  // bytes for standard output, in order
  std::function<void(const std::string&)> note;   // a line for the user
  std::function<void()> progress = [] {};         // a token has come
};

void generate(NextTokens& model, const GenerationTask& task, const GenerateArgs& args,
              const GenerationOutput& output);

}  // namespace ds
