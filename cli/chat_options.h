// Options of verbs that take conversations.
#pragma once

#include <string>
#include <vector>

#include "cli/verb_app.h"

namespace ds {

// Texts that are conversations, of which a chat template makes what the model reads.
struct ChatArgs {
  bool is_chat = false;
  std::string chat_template;  // a file, or the name of one of several; empty: the tokenizer's own
};

// `description`: what --chat does there.
void add_chat(VerbApp& app, ChatArgs& values, const std::string& description);

// UsageError for what goes with --chat alone.
void check_chat(const ChatArgs& values);

// A message of a conversation.
struct ChatMessage {
  std::string role, content;
};
// The conversation as JSON: [{"role": ..., "content": ...}, ...]. DataError for what is no UTF-8.
std::string json_of(const std::vector<ChatMessage>& messages);

}  // namespace ds
