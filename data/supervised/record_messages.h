// Messages of records (pure): role and content, or ShareGPT's from and value, and what templates
// know beside them. What is none is refused with the file and the line.
#pragma once

#include <rapidjson/document.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct RecordPlace {
  std::string path;
  int64_t line = 0;  // from 1
};
// DataError "path:line: defect".
[[noreturn]] void refuse_record(const RecordPlace& place, const std::string& defect);

// Roles that messages have without being named as further ones.
std::span<const std::string_view> known_roles();

struct RecordMessage {
  std::string role;
  std::string json;       // the whole message
  std::string content;    // where it is a text
  bool is_learnt = true;  // what its own "weight" says: OpenAI's, 0 or 1
};
// Whether it is the assistant's.
bool replies(const RecordMessage& message);

// A conversation, of which the first messages may be a prompt that is given.
struct ChatRecord {
  std::vector<RecordMessage> messages;
  std::string others;  // members beside the messages that templates know, as `,"tools":[...]`
  std::optional<int64_t> prompt;  // messages of a prompt; nothing: roles say what is learnt
};
// The conversation of the first messages, as ChatFormat::render takes it.
std::string first_messages(const ChatRecord& chat, int64_t count);

// The member of that name, the last one as Python reads objects; null: there is none, or it is
// null.
const rapidjson::Value* member_of(const rapidjson::Value& object, std::string_view name);
// The text of a member that may be missing.
std::string optional_text(const rapidjson::Value& object, std::string_view name,
                          const RecordPlace& place);
// Refuses members of these names that say something; `instead`: what to do.
void refuse_beside(const rapidjson::Value& object, std::initializer_list<std::string_view> names,
                   std::string_view instead, const RecordPlace& place);

RecordMessage message_of(std::string_view role, std::string_view content, const RecordPlace& place);
// The messages of a list, which is not empty; `roles` are further ones.
std::vector<RecordMessage> messages_of(const rapidjson::Value& list, std::string_view field,
                                       std::span<const std::string> roles,
                                       const RecordPlace& place);
// The same of one message that stands in no list.
RecordMessage message_in(const rapidjson::Value& entry, std::string_view field,
                         std::span<const std::string> roles, const RecordPlace& place);
// Members of a conversation that templates know, as further members of an object. Tools are often
// a text of JSON, since columns of tables hold no lists.
std::string others_of(const rapidjson::Value& object, const RecordPlace& place);

}  // namespace ds
