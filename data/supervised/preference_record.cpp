#include "data/supervised/preference_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/text/utf8.h"
#include "core/values/index.h"
#include "data/supervised/example_record.h"
#include "data/text/record_lines.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

constexpr std::string_view kSection = "data.preference";
using Messages = std::vector<RecordMessage>;

bool says_the_same(const RecordMessage& a, const RecordMessage& b) {
  if (a.is_learnt != b.is_learnt) return false;
  if (a.json == b.json) return true;
  const auto parsed = [](const RecordMessage& message) {  // members in any order
    rapidjson::Document document;
    document.Parse<rapidjson::kParseIterativeFlag>(message.json.data(), message.json.size());
    return document;
  };
  return parsed(a) == parsed(b);
}

// How many messages both begin with alike; each has one left.
int64_t shared_messages(const Messages& a, const Messages& b) {
  const int64_t most = std::min(std::ssize(a), std::ssize(b)) - 1;
  int64_t count = 0;
  while (count < most && says_the_same(nth(a, count), nth(b, count))) ++count;
  return count;
}

// How many bytes; each has a character left.
size_t shared_bytes(std::string_view a, std::string_view b) {
  auto size = narrow<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const bool is_whole = size == std::min(a.size(), b.size());  // of one of them
  if (is_whole && size > 0) --size;
  while (size > 0 && is_continuation(a[size])) --size;
  return size > 0 && !is_whole && a[size - 1] == ' ' ? size - 1 : size;
}

// Reads one record.
class PreferenceReader {
 public:
  PreferenceReader(const rapidjson::Value& object, const PreferenceFields& fields,
                   const RecordPlace& place)
      : object_(object),
        fields_(fields),
        place_(place),
        chosen_(fields.chosen.value_or("chosen")),
        rejected_(fields.rejected.value_or("rejected")),
        prompt_(name_of_prompt()) {}

  PreferenceRecord read() const {
    const rapidjson::Value& chosen = field(chosen_);
    const rapidjson::Value& rejected = field(rejected_);
    const rapidjson::Value* const prompt = prompt_ ? &field(*prompt_) : nullptr;
    if (chosen.IsString() && rejected.IsString()) return of_texts(prompt, chosen, rejected);
    const auto has_messages = [](const rapidjson::Value& value) {
      return value.IsArray() || value.IsObject();
    };
    if (has_messages(chosen) && has_messages(rejected)) {
      return of_messages(prompt, chosen, rejected);
    }
    refuse_record(place_, fmt::format("\"{}\" and \"{}\" are neither two texts nor messages both",
                                      chosen_, rejected_));
  }

 private:
  // Nothing: the prompt stands in both.
  std::optional<std::string> name_of_prompt() const {
    if (fields_.prompt) return fields_.prompt;
    if (object_.HasMember("prompt")) return "prompt";
    for (const char* const name : {"messages", "conversations"}) {
      if (member_of(object_, name) != nullptr) return name;
    }
    return std::nullopt;
  }
  // Whether the prompt is a conversation of its own beside two completions.
  bool has_talk() const { return !fields_.prompt && prompt_ && *prompt_ != "prompt"; }
  const rapidjson::Value& field(const std::string& name) const {
    return field_on_line(object_, name, kSection, place_.path, place_.line);
  }
  [[noreturn]] void refuse_equal() const {
    refuse_record(place_,
                  fmt::format("\"{}\" and \"{}\" are equal, and neither is to be preferred; "
                              "expected two that differ",
                              chosen_, rejected_));
  }
  void refuse_others_beside() const {
    refuse_beside(object_, {"system", "history"},
                  "beside \"chosen\" and \"rejected\" is not read; put it into the prompt", place_);
  }

  PreferenceRecord of_texts(const rapidjson::Value* prompt, const rapidjson::Value& chosen,
                            const rapidjson::Value& rejected) const;
  PreferenceRecord of_messages(const rapidjson::Value* prompt, const rapidjson::Value& chosen,
                               const rapidjson::Value& rejected) const;
  Messages talk() const;
  Messages messages_in(const rapidjson::Value& value, const std::string& name) const;
  ChatRecord joined(const Messages& prompt, Messages completion) const;

  const rapidjson::Value& object_;
  const PreferenceFields& fields_;
  const RecordPlace& place_;
  const std::string chosen_, rejected_;
  const std::optional<std::string> prompt_;
};

PreferenceRecord PreferenceReader::of_texts(const rapidjson::Value* prompt,
                                            const rapidjson::Value& chosen,
                                            const rapidjson::Value& rejected) const {
  refuse_others_beside();
  PreferenceRecord record{
      .prompt = "", .chosen = string_of(chosen), .rejected = string_of(rejected)};
  if (record.chosen == record.rejected) refuse_equal();
  if (prompt != nullptr) {
    if (!prompt->IsString()) {
      refuse_record(place_, fmt::format("\"{}\" is no text, and \"{}\" and \"{}\" are texts; "
                                        "expected three texts, or messages in all of them",
                                        *prompt_, chosen_, rejected_));
    }
    record.prompt = string_of(*prompt);
    return record;
  }
  refuse_beside(object_, {"instruction", "question", "query", "input"},
                fmt::format("beside \"{}\" and \"{}\" is not read where there is no \"prompt\"; "
                            "{} says which field is the prompt",
                            chosen_, rejected_, kSection),
                place_);
  if (record.chosen.empty() || record.rejected.empty()) {
    refuse_record(place_, fmt::format("\"{}\" is empty, and there is no \"prompt\"; expected a "
                                      "prompt, or texts that begin with it",
                                      record.chosen.empty() ? chosen_ : rejected_));
  }
  const size_t shared = shared_bytes(record.chosen, record.rejected);
  record.prompt = record.chosen.substr(0, shared);
  record.chosen.erase(0, shared);
  record.rejected.erase(0, shared);
  return record;
}

Messages PreferenceReader::messages_in(const rapidjson::Value& value,
                                       const std::string& name) const {
  if (value.IsObject()) return {message_in(value, name, fields_.roles, place_)};
  return messages_of(value, name, fields_.roles, place_);
}

Messages PreferenceReader::talk() const {
  const ChatFields one{.messages = *prompt_, .roles = fields_.roles};
  Messages messages = chat_record(object_, one, place_).messages;
  if (!replies(messages.back())) return messages;
  refuse_record(place_, fmt::format("the last message of \"{}\" is the assistant's, and \"{}\" and "
                                    "\"{}\" are expected to answer one of somebody else",
                                    *prompt_, chosen_, rejected_));
}

ChatRecord PreferenceReader::joined(const Messages& prompt, Messages completion) const {
  if (!std::ranges::all_of(completion, &RecordMessage::is_learnt)) {
    refuse_record(place_,
                  "a message of a completion has \"weight\" 0, and a whole completion "
                  "counts here whatever it weighs; remove the weight");
  }
  ChatRecord chat{
      .messages = prompt, .others = others_of(object_, place_), .prompt = std::ssize(prompt)};
  std::ranges::move(completion, std::back_inserter(chat.messages));
  return chat;
}

PreferenceRecord PreferenceReader::of_messages(const rapidjson::Value* prompt,
                                               const rapidjson::Value& chosen,
                                               const rapidjson::Value& rejected) const {
  if (!has_talk()) refuse_others_beside();
  Messages better = messages_in(chosen, chosen_), worse = messages_in(rejected, rejected_);
  if (std::ranges::equal(better, worse, says_the_same)) refuse_equal();
  Messages shared;
  const int64_t count = shared_messages(better, worse);
  // A text that stands in what both begin with says it once more (UltraFeedback's records).
  const bool is_told_again =
      prompt != nullptr && prompt->IsString() &&
      std::any_of(better.begin(), better.begin() + count, [&](const RecordMessage& message) {
        return message.content == string_of(*prompt);
      });
  if (prompt == nullptr || is_told_again) {
    if (count == 0) {
      refuse_record(place_, fmt::format("there is no \"prompt\", and \"{}\" and \"{}\" begin with "
                                        "different messages; expected a prompt, or conversations "
                                        "that begin with it",
                                        chosen_, rejected_));
    }
    shared.assign(better.begin(), better.begin() + count);
    better.erase(better.begin(), better.begin() + count);
    worse.erase(worse.begin(), worse.begin() + count);
  } else if (!prompt->IsArray()) {
    refuse_record(place_, fmt::format("\"{}\" is no list of messages, and \"{}\" and \"{}\" are "
                                      "messages; expected such a list, or no prompt where both "
                                      "begin with it",
                                      *prompt_, chosen_, rejected_));
  } else {
    shared = has_talk() ? talk() : messages_of(*prompt, *prompt_, fields_.roles, place_);
  }
  return {.prompt = "",
          .chosen = "",
          .rejected = "",
          .chats = std::pair(joined(shared, std::move(better)), joined(shared, std::move(worse)))};
}

}  // namespace

PreferenceRecord preference_record(const rapidjson::Value& object, const PreferenceFields& fields,
                                   const RecordPlace& place) {
  return PreferenceReader(object, fields, place).read();
}

}  // namespace ds
