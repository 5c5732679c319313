// A generated text as a line of JSON, for programs (docs/using-a-model.md names the fields; those
// that a prompt carried stand behind them).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "generate/logprobs.h"
#include "generate/task.h"

namespace ds {

struct GeneratedText {
  const Prompt& prompt;
  const std::string& text;
  std::span<const int32_t> ids;
  const char* finish_reason = "";
  int64_t sample = 0;
  double seconds = 0;
  std::span<const DrawnToken> tokens{};  // as ids, where log-probabilities are wanted
};

// Ends with a line break.
std::string text_json(const GeneratedText& text, const GenerationTask& task,
                      const GenerateArgs& args);

}  // namespace ds
