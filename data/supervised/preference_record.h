// Records of preference data (pure): a completion that was chosen and one that was rejected, behind
// one prompt, as TRL, LLaMA-Factory and axolotl have them.
#pragma once

#include <rapidjson/document.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/supervised/record_messages.h"

namespace ds {

struct PreferenceFields {
  std::optional<std::string> prompt{}, chosen{}, rejected{};
  std::vector<std::string> roles{};  // of messages, as in ChatFields
};
struct PreferenceRecord {
  std::string prompt, chosen, rejected;
  std::optional<std::pair<ChatRecord, ChatRecord>> chats{};  // in their place, each with its prompt
};
// Reads "prompt", "chosen" and "rejected" if no other fields are given: three texts, or messages,
// of which a completion may have one that stands in no list. "messages" or ShareGPT's
// "conversations" are a prompt, too. Without any prompt it is what both completions begin with
// alike: all messages of it but the last of either, or all characters but a space at the end, as
// TRL's extract_prompt leaves them; a prompt that is the text of one of these messages is the same.
// An empty text is a completion that ends at once.
// DataError with file and line for other forms, for completions that are equal, and where what a
// prompt seems to be would not be read.
PreferenceRecord preference_record(const rapidjson::Value& object, const PreferenceFields& fields,
                                   const RecordPlace& place);

}  // namespace ds
