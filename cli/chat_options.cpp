#include "cli/chat_options.h"

#include "config/reader/json_values.h"
#include "core/status/error.h"

namespace ds {

void add_chat(VerbApp& app, ChatArgs& values, const std::string& description) {
  app.add_flag("--chat", values.is_chat, description);
  app.add_option("--chat-template", values.chat_template,
                 "A file with a template, or the name of one of several (default: the tokenizer's)")
      ->type_name("FILE");
}

void check_chat(const ChatArgs& values) {
  if (!values.chat_template.empty() && !values.is_chat) {
    throw UsageError("--chat-template is about conversations: give --chat");
  }
}

std::string json_of(const std::vector<ChatMessage>& messages) {
  std::string out = "[";
  for (const ChatMessage& message : messages) {
    out += fmt::format("{}{{\"role\": {}, \"content\": {}}}", out.size() == 1 ? "" : ", ",
                       json_quoted(message.role), json_quoted(message.content));
  }
  return out + "]";
}

}  // namespace ds
