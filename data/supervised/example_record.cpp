#include "data/supervised/example_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/values/index.h"
#include "data/text/record_lines.h"
#include "data/tokenizer/forms/json_object.h"

namespace ds {
namespace {

constexpr std::string_view kChatSection = "data.chat.messages";
constexpr std::string_view kPromptSection = "data.prompt_completion";
constexpr int32_t kNoLabel = -100;  // PyTorch's ignore_index, in labels of transformers

bool is_alpaca(const rapidjson::Value& object) {
  return member_of(object, "instruction") != nullptr && member_of(object, "output") != nullptr;
}

ChatRecord chat_of_alpaca(const rapidjson::Value& object, const RecordPlace& place) {
  if (const rapidjson::Value* const history = member_of(object, "history");
      history != nullptr && !(history->IsArray() && history->Empty())) {
    refuse_record(place, "\"history\" beside \"instruction\" is not read; give \"messages\"");
  }
  ChatRecord chat;
  const std::string input = optional_text(object, "input", place);
  const std::string instruction = optional_text(object, "instruction", place);
  chat.messages.push_back(
      message_of("user", input.empty() ? instruction : instruction + "\n" + input, place));
  chat.messages.push_back(message_of("assistant", optional_text(object, "output", place), place));
  return chat;
}

ChatRecord chat_of_list(const rapidjson::Value& object, const ChatFields& fields,
                        const RecordPlace& place) {
  const bool is_sharegpt = !fields.messages && member_of(object, "messages") == nullptr &&
                           member_of(object, "conversations") != nullptr;
  const std::string name =
      is_sharegpt ? std::string("conversations") : fields.messages.value_or("messages");
  const rapidjson::Value& list = field_on_line(object, name, kChatSection, place.path, place.line);
  return {.messages = messages_of(list, name, fields.roles, place),
          .others = others_of(object, place),
          .prompt = {}};
}

std::string prompt_of_alpaca(const rapidjson::Value& object, const RecordPlace& place) {
  const std::string instruction = optional_text(object, "instruction", place);
  const std::string input = optional_text(object, "input", place);
  return input.empty()
             ? fmt::format(
                   "Below is an instruction that describes a task. Write a response that "
                   "appropriately completes the request.\n\n### Instruction:\n{}\n\n### "
                   "Response:\n",
                   instruction)
             : fmt::format(
                   "Below is an instruction that describes a task, paired with an input "
                   "that provides further context. Write a response that appropriately "
                   "completes the request.\n\n### Instruction:\n{}\n\n### Input:\n{}\n\n### "
                   "Response:\n",
                   instruction, input);
}

}  // namespace

ChatRecord chat_record(const rapidjson::Value& object, const ChatFields& fields,
                       const RecordPlace& place) {
  const bool names_none = !fields.messages && member_of(object, "messages") == nullptr;
  ChatRecord chat = names_none && is_alpaca(object) ? chat_of_alpaca(object, place)
                                                    : chat_of_list(object, fields, place);
  const std::string system = optional_text(object, "system", place);
  if (system.empty()) return chat;
  if (chat.messages.front().role == "system") {
    refuse_record(place,
                  "\"system\" and the first message both are the system's; remove one of them");
  }
  chat.messages.insert(chat.messages.begin(), message_of("system", system, place));
  return chat;
}

PromptAndCompletion prompt_record(const rapidjson::Value& object, const PromptFields& fields,
                                  const RecordPlace& place) {
  refuse_beside(object, {"system", "history"},
                "beside a prompt is not read; put it into the prompt, or give \"messages\" and "
                "data.format chat",
                place);
  const bool names_none = !fields.prompt && !fields.completion;
  if (names_none && member_of(object, "prompt") == nullptr && is_alpaca(object)) {
    return {.prompt = prompt_of_alpaca(object, place),
            .completion = optional_text(object, "output", place),
            .chat = {}};
  }
  const std::string first = fields.prompt.value_or("prompt");
  const std::string second = fields.completion.value_or("completion");
  const auto& prompt = field_on_line(object, first, kPromptSection, place.path, place.line);
  const auto& completion = field_on_line(object, second, kPromptSection, place.path, place.line);
  if (prompt.IsString() && completion.IsString()) {
    return {.prompt = string_of(prompt), .completion = string_of(completion), .chat = {}};
  }
  if (!prompt.IsArray() || !completion.IsArray()) {
    refuse_record(place,
                  fmt::format("\"{}\" and \"{}\" are neither two texts nor two lists of messages",
                              first, second));
  }
  ChatRecord chat{.messages = messages_of(prompt, first, fields.roles, place),
                  .others = others_of(object, place),
                  .prompt = {}};
  chat.prompt = std::ssize(chat.messages);
  std::ranges::move(messages_of(completion, second, fields.roles, place),
                    std::back_inserter(chat.messages));
  return {.prompt = "", .completion = "", .chat = std::move(chat)};
}

namespace {

std::vector<int32_t> whole_numbers(const rapidjson::Value& list, std::string_view name,
                                   const RecordPlace& place) {
  if (!list.IsArray()) refuse_record(place, fmt::format("\"{}\" is no list of numbers", name));
  std::vector<int32_t> numbers;
  for (const rapidjson::Value& value : list.GetArray()) {
    if (!value.IsInt()) {
      refuse_record(place,
                    fmt::format("\"{}\"[{}] is no whole number of 32 bits", name, numbers.size()));
    }
    numbers.push_back(value.GetInt());
  }
  return numbers;
}

}  // namespace

SupervisedTokens tokenized_record(const rapidjson::Value& object, int64_t vocabulary,
                                  const RecordPlace& place) {
  constexpr std::string_view kIds = "input_ids", kLabels = "labels", kMask = "attention_mask";
  SupervisedTokens record{
      .ids = whole_numbers(
          field_on_line(object, std::string(kIds), "data.format tokenized", place.path, place.line),
          kIds, place),
      .loss_mask = {}};
  const auto check_size = [&](const std::vector<int32_t>& values, std::string_view name) {
    if (values.size() == record.ids.size()) return;
    refuse_record(place, fmt::format("\"{}\" has {} numbers, and \"{}\" {}", name, values.size(),
                                     kIds, record.ids.size()));
  };
  for (size_t i = 0; i < record.ids.size(); ++i) {
    if (record.ids[i] >= 0 && record.ids[i] < vocabulary) continue;
    refuse_record(place, fmt::format("\"{}\"[{}] is {}, and the model has {} tokens", kIds, i,
                                     record.ids[i], vocabulary));
  }
  record.loss_mask.assign(record.ids.size(), 1);
  if (const rapidjson::Value* const labels = member_of(object, kLabels)) {
    const std::vector<int32_t> values = whole_numbers(*labels, kLabels, place);
    check_size(values, kLabels);
    for (size_t i = 0; i < values.size(); ++i) {
      record.loss_mask[i] = values[i] != kNoLabel ? 1 : 0;
      if (values[i] == kNoLabel || values[i] == record.ids[i]) continue;
      refuse_record(place, fmt::format("\"{}\"[{}] is {}, neither -100 nor {}, the token there",
                                       kLabels, i, values[i], record.ids[i]));
    }
  }
  const rapidjson::Value* const attention = member_of(object, kMask);
  if (attention == nullptr) return record;
  const std::vector<int32_t> seen = whole_numbers(*attention, kMask, place);
  check_size(seen, kMask);
  // Padding at the end is left out; elsewhere nothing here leaves a token out.
  const auto end = std::ranges::find(seen, 0);
  if (std::ranges::any_of(end, seen.end(), [](int32_t value) { return value != 0; })) {
    refuse_record(place, fmt::format("\"{}\" leaves out tokens before others that it has", kMask));
  }
  const auto kept = to_size(end - seen.begin());
  record.ids.resize(kept);
  record.loss_mask.resize(kept);
  return record;
}

}  // namespace ds
