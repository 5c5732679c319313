// A generated text as a line of JSON, for programs (docs/using-a-model.md names the fields; those
// that a prompt carried stand behind them).
#pragma once

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

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

// The fields that a record carried, as the next ones of an object.
void write_carried(rapidjson::Writer<rapidjson::StringBuffer>& out, const PromptRecord& record);

}  // namespace ds
