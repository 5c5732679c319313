// Records of supervised fine-tuning (pure): what a JSON object says, by the fields that TRL,
// ShareGPT and Alpaca know them by, in one form for each kind of data.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/supervised/supervised_tokens.h"

namespace ds {

// Roles that messages have without being named in ChatFields.
std::span<const std::string_view> known_roles();

struct RecordPlace {
  std::string path;
  int64_t line = 0;  // from 1
};

struct RecordMessage {
  std::string role;
  std::string json;       // the whole message
  std::string content;    // where it is a text
  bool is_learnt = true;  // what its own "weight" says: OpenAI's, 0 or 1
};
// A conversation, of which the first messages may be a prompt that is given.
struct ChatRecord {
  std::vector<RecordMessage> messages;
  std::string others;  // members beside the messages that templates know, as `,"tools":[...]`
  std::optional<int64_t> prompt;  // messages of a prompt; nothing: roles say what is learnt
};
// The conversation of the first messages, as ChatFormat::render takes it.
std::string first_messages(const ChatRecord& chat, int64_t count);

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
