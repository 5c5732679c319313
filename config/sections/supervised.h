// Data of supervised fine-tuning: examples of which a part is learnt.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/enum_name.h"
#include "config/reader/fields.h"

namespace ds {

enum class DataFormat : int { kText, kChat, kPromptCompletion, kTokenized, kPreference };
std::span<const EnumName> names_of(DataFormat);

enum class TooLong : int { kTruncate, kSplit, kDrop };
std::span<const EnumName> names_of(TooLong);

enum class TrainOnEos : int { kTurn, kLast, kAll, kNone };
std::span<const EnumName> names_of(TrainOnEos);

// The names are those of TRL and axolotl.
struct ChatConfig {
  std::optional<std::string> messages;  // the field with a conversation
  std::vector<std::string> roles;       // beside those that everybody knows
  std::vector<std::string> train_on{"assistant"};
  TrainOnEos train_on_eos = TrainOnEos::kTurn;
  std::optional<std::string> chat_template;  // a file with one, or the name of one of several
};
void fields(Visitor& v, ChatConfig& c);

struct PromptCompletionConfig {
  std::optional<std::string> prompt, completion;  // the fields
  bool train_on_prompt = false;
};
void fields(Visitor& v, PromptCompletionConfig& c);

struct PreferenceDataConfig {
  std::optional<std::string> prompt, chosen, rejected;  // the fields
};
void fields(Visitor& v, PreferenceDataConfig& c);

struct SupervisedData {
  DataFormat format = DataFormat::kText;
  std::optional<ChatConfig> chat;
  std::optional<PromptCompletionConfig> prompt_completion;
  std::optional<PreferenceDataConfig> preference;
  TooLong too_long = TooLong::kTruncate;
  bool packing = false;
  int64_t packing_window = 8192;  // examples
  std::optional<std::string> date;
  bool is_used() const { return format != DataFormat::kText; }
  // Whether records may be conversations, which a chat template writes.
  bool writes_chats() const { return is_used() && format != DataFormat::kTokenized; }
  bool has_pairs() const { return format == DataFormat::kPreference; }
};
// Within the section "data".
void fields_of_supervised(Visitor& v, SupervisedData& c);

}  // namespace ds
