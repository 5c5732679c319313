// What of a conversation is learnt: where, in the text that a chat template makes of it, the turns
// lie that a model is to say itself.
#pragma once

#include <string>
#include <vector>

#include "data/chat_format.h"
#include "data/supervised/example_record.h"

namespace ds {

// Whether the token that ends a turn is learnt. The names are axolotl's train_on_eos.
enum class LearntEnds {
  kOfTurn,  // with each turn that is learnt
  kOfLast,  // with the last one of those
  kOfAll,   // with each turn, whoever has it
  kNone,
};

struct SupervisionRules {
  std::vector<std::string> roles{"assistant"};  // whose turns are learnt; "all": the whole text
  LearntEnds ends = LearntEnds::kOfTurn;
  std::vector<std::string> special_tokens{};  // one of which ends a turn
};

struct SupervisedText {
  std::string text;
  std::vector<chat::TextRange> learnt{};  // bytes of it, in their order
};

class ChatSupervision {
 public:
  ChatSupervision(ChatFormat format, SupervisionRules rules)
      : format_(std::move(format)), rules_(std::move(rules)) {}

  // What {% generation %} blocks of the template mark; of a template without any, turns are found
  // by what the text gains with each. What ends a turn, white space behind it aside, is its last
  // special token. Of a conversation with a prompt, all behind that is learnt.
  // DataError with the place where the template refuses the conversation, or its text changes
  // where it only should grow, so that nobody can tell where a turn begins.
  SupervisedText supervise(const ChatRecord& chat, const RecordPlace& place) const;
  // The text of a conversation, and of its prompt alone, with what says that the assistant's turn
  // begins. Nobody requires the one to begin with the other.
  std::string whole_text(const ChatRecord& chat, const RecordPlace& place) const;
  std::string prompt_text(const ChatRecord& chat, const RecordPlace& place) const;

 private:
  struct Turn {
    chat::TextRange said, end;  // without its end, and that
  };
  class Texts;
  bool is_learnt(const RecordMessage& message) const;
  std::vector<chat::TextRange> marked(const ChatRecord& chat, const RenderedChat& rendered,
                                      const std::string& where) const;
  std::vector<chat::TextRange> by_turns(const ChatRecord& chat, const Texts& texts) const;
  Turn turn_of(const ChatRecord& chat, int64_t message, const Texts& texts) const;

  ChatFormat format_;
  SupervisionRules rules_;
};

}  // namespace ds
