#include "cli/chat_options.h"

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

}  // namespace ds
