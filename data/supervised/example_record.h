// Records of supervised fine-tuning (pure): what a JSON object says, by the fields that TRL,
// ShareGPT and Alpaca know them by, in one form for each kind of data.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/supervised/record_messages.h"
#include "data/supervised/supervised_tokens.h"

namespace ds {

struct ChatFields {
  std::optional<std::string> messages{};
  std::vector<std::string> roles{};  // beside those that everybody knows
};
// The messages of the field ("messages" or ShareGPT's "conversations" if none is given), or of
// Alpaca's instruction, input and output. DataError with file and line for a record that has none,
// for a role that nobody knows, and for what is no message.
ChatRecord chat_record(const rapidjson::Value& object, const ChatFields& fields,
                       const RecordPlace& place);

// A prompt and what follows it: two texts, or two lists of messages.
struct PromptFields {
  std::optional<std::string> prompt{}, completion{};
  std::vector<std::string> roles{};  // of messages, as in ChatFields
};
struct PromptAndCompletion {
  std::string prompt, completion;
  std::optional<ChatRecord> chat;  // in their place
};
// Reads "prompt" and "completion" if no other fields are given, or Alpaca's, whose prompt is
// the text that Stanford's Alpaca was trained on. DataError with file and line.
PromptAndCompletion prompt_record(const rapidjson::Value& object, const PromptFields& fields,
                                  const RecordPlace& place);

// Token ids, and of the same number either the targets ("labels", -100 where there is none) or
// nothing: all are learnt.
// DataError with file and line, also for ids that are not below `vocabulary`, and for labels that
// are other tokens than the ids at their place.
SupervisedTokens tokenized_record(const rapidjson::Value& object, int64_t vocabulary,
                                  const RecordPlace& place);

}  // namespace ds
