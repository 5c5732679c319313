// How a tokenizer's folder writes a conversation as one text: its chat template, found where
// Hugging Face's transformers finds it, with the tokens of its roles.
#pragma once

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/files/file.h"
#include "data/chat/template.h"

namespace ds {

class ChatFormat {
 public:
  static constexpr int kDeepest = 200;  // levels of a conversation that templates are given

  // `tokenizer`: in the words of make_tokenizer. `chosen`: a file with a template, or the name of
  // one of several; empty: chat_template.jinja, or else the chat_template of tokenizer_config.json
  // or of chat_template.json. InputMissing where there is none, with the names that there are;
  // DataError and Unsupported as ChatTemplate::parse throws them.
  // `option`: what chooses, as messages name it.
  static ChatFormat read(FileSystem& files, const std::string& tokenizer, const std::string& chosen,
                         const std::string& option = "--chat-template");

  // From now on templates that ask for the time are told this one, and not that of the clock.
  void write_time(const std::tm& time) { time_ = time; }

  // Whether there is a template beside the tokenizer.
  static bool exists(FileSystem& files, const std::string& tokenizer);

  // `conversation`: a list of messages, or an object with such a list as "messages" and whatever
  // else the template is to know by its name, such as "tools" and "documents". A message is an
  // object whose "role" is a string. `place` stands in errors. `replies`: whether the text goes on
  // until where the assistant begins. DataError for what is no conversation, and as
  // ChatTemplate::render throws.
  RenderedChat render(std::string_view conversation, const std::string& place, bool replies) const;

 private:
  struct Named {  // by its name; "default" where a folder has one alone
    std::string source, path;
  };
  static void add_templates(const rapidjson::Value& member, const std::string& place,
                            std::map<std::string, Named>& found);
  static std::map<std::string, Named> templates_of(FileSystem& files, const std::string& folder);
  const ChatTemplate& chosen_for(bool has_tools) const;

  std::map<std::string, ChatTemplate> templates_;
  std::map<std::string, std::string> tokens_;  // "bos_token" -> "<s>"
  std::optional<std::tm> time_;                // nothing: now
};

}  // namespace ds
